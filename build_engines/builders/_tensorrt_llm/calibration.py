"""A local text as the library's calibration data: a folder with a `train` split that has a `text` column.

The library takes a folder it can open as a data set; given nothing it fetches cnn_dailymail from the network.
"""

from __future__ import annotations

import json
from pathlib import Path

from build_engines.errors import SpecError

__all__ = ["read_passages", "write_calibration"]

_PASSAGE = 2000  # characters: about the 512 tokens that the library cuts a sample to
_SAMPLES = 512


def read_passages(file: str) -> list[str]:
    """Passages of a text file: paragraphs, joined and cut to about one sample's length.

    Raises:
        SpecError: no such file, no text in it, or nothing that is text.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise SpecError(f"calib '{file}': no such file; name a text file of what the model will be asked.")
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"calib '{file}': unreadable as UTF-8 text ({error}); give plain text.") from error
    words = text.split()
    if not words:
        raise SpecError(
            f"calib '{file}': there is no text in it; calibration measures activations on text: give some pages of "
            "what the model will be asked."
        )
    whole = " ".join(words)
    return [whole[start : start + _PASSAGE] for start in range(0, len(whole), _PASSAGE)]


def write_calibration(file: str, folder: Path) -> Path:
    """Write the data set's folder and return it; a short text is repeated, since the library wants many samples."""
    passages = read_passages(file)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [passages[index % len(passages)] for index in range(min(_SAMPLES, max(32, len(passages))))]
    (folder / "train.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows), "utf-8")
    return folder
