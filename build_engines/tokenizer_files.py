"""A tokenizer without tokenizer.json, made one by transformers, and held to the slow one it was made of.

The served tokenizer is the library `tokenizers`, which reads tokenizer.json alone. A slow tokenizer (SentencePiece's
tokenizer.model, or vocab.json with merges.txt) is converted; where the conversion gives other ids, the model would
read other tokens than it was trained on, so every conversion is compared on texts that conversions get wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError, one_line
from build_engines.quiet import quiet_transformers
from build_engines.remote_code import code_errors

__all__ = ["PROBES", "check_tokenizer", "save_fast_tokenizer"]

PROBES = (
    "",
    " ",
    "  ",
    "word",
    " word",
    "  two  spaces   three ",
    "\n",
    "\n\n line\n  indented\r\n",
    "\ttab",
    "12, 305, 1996; 3.14",
    "日本語 テスト 漢字",
    "emoji 😀👩‍👩‍👧 flag 🇩🇪",
    "▁ U+2581 ▁▁",
    "é e\u0301 ﬁ Å \u017f",
    "\u00a0no-break\u3000wide\u200bzero",
    "<s> </s>",
    "</s> after",
    "before </s>between</s> after",
    "def f(x):\n    return  x\n",
    "x" * 200,
)
_LOAD_ERRORS = (ValueError, OSError, ImportError, KeyError, TypeError, RuntimeError, AttributeError)


def save_fast_tokenizer(folder: Path, output: Path, *, trusted: bool = False) -> None:
    """Write tokenizer.json into ``output``, of the tokenizer files in ``folder``. ``trusted``: its code may run.

    Raises:
        CheckpointError: it cannot be made, or would give other ids than the slow tokenizer.
    """
    with code_errors(folder, trusted=trusted), quiet_transformers():
        fast = _load(folder, trusted=trusted)
        fast.save_pretrained(output)
        if not fast.is_fast or not (output / "tokenizer.json").is_file():
            raise _refused(folder, f"{type(fast).__name__} has no fast form")
        slow = type(fast).slow_tokenizer_class  # none where only a fast one was ever written
        if slow is not None:
            _compare(folder, slow.from_pretrained(str(folder), local_files_only=True), fast)


def check_tokenizer(file: Path, subject: Path) -> None:
    """Read ``file``, a tokenizer.json, as the server will; ``subject`` is the checkpoint it came from.

    Raises:
        CheckpointError: the library cannot read it.
    """
    from tokenizers import Tokenizer

    try:
        Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing more precise
        raise CheckpointError(
            f"checkpoint '{subject}': its tokenizer.json is none that the tokenizers library reads "
            f"({one_line(error)}); put the model's own beside the weights, or fetch it again."
        ) from error


def _load(folder: Path, *, trusted: bool) -> Any:
    from transformers import AutoTokenizer

    load: Any = AutoTokenizer.from_pretrained
    try:
        return load(str(folder), local_files_only=True, trust_remote_code=trusted)
    except _LOAD_ERRORS as error:
        raise _refused(folder, one_line(error)) from error


def _compare(folder: Path, slow: Any, fast: Any) -> None:
    from build_engines.quality import passages

    for text in (*PROBES, *passages()):
        expected, found = slow(text)["input_ids"], fast(text)["input_ids"]
        if expected != found:
            shown = text if len(text) <= 40 else f"{text[:40]}…"
            raise _refused(folder, f"it would read {shown!r} as {found[:8]}, the slow tokenizer as {expected[:8]}")


def _refused(folder: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint '{folder}': its tokenizer cannot be made a tokenizer.json ({why}); the served ids must be the "
        "model's own: add the tokenizer.json of the model, which is then taken as it is."
    )
