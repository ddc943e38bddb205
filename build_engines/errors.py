"""What a build can end with besides an artifact.

CallerMistake (python_llm.errors, exit code 2)
 ├── SpecError        a build knob that cannot work
 ├── CheckpointError  a source that is missing, damaged, or of a kind nothing here can compile
 ├── StorageError     a folder that cannot be written, a disk that is full, a name that is taken
 ├── MemoryShortage   a machine with less free memory than the build needs
 ├── MissingRuntime   an engine library that is not here; the text says which container has it
 └── QualityLoss      an engine that loses more against its source than the bounds allow: the caller's to accept

BuildFailure (exit code 1)  the builder broke on a checkpoint that looked sound
LiveFailure (exit code 1)   a running Triton does not answer, or does not load or unload a model
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from python_llm.errors import CallerMistake

__all__ = [
    "BuildFailure",
    "CheckpointError",
    "LiveFailure",
    "MemoryShortage",
    "MissingRuntime",
    "QualityLoss",
    "SpecError",
    "StorageError",
    "one_line",
    "storage_errors",
]


class SpecError(CallerMistake):
    """A build knob has a value that cannot work."""


class CheckpointError(CallerMistake):
    """The source is missing, damaged, or of a kind nothing here can compile."""


class StorageError(CallerMistake):
    """A folder cannot be used: no permission, no space, or it belongs to something else."""


class MemoryShortage(CallerMistake):
    """The build needs more memory than this machine has free."""


class MissingRuntime(CallerMistake):
    """The engine's library is not installed here, or in another version."""


class QualityLoss(CallerMistake):
    """The engine loses more against its source than the bounds allow; the caller may accept it."""


class BuildFailure(Exception):
    """The builder broke on a checkpoint that looked sound; ours to repair."""

    exit_code = 1


class LiveFailure(Exception):
    """A running Triton does not answer, or does not load or unload a model."""

    exit_code = 1


def one_line(error: BaseException) -> str:
    """What a library says, as a part of one line of ours: its first 300 characters."""
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:300]}…"


_REMEDIES = {
    errno.EACCES: "it must be writable; change its permissions or choose another folder",
    errno.EPERM: "it must be writable; change its permissions or choose another folder",
    errno.EROFS: "it lies on a read-only file system; choose another folder",
    errno.ENOSPC: "the disk is full; free some space or choose another folder",
    errno.EDQUOT: "the disk quota is used up; free some space or choose another folder",
    errno.EFBIG: "a file may not grow that large here (a limit); free some space, raise it or choose another folder",
    errno.ENOTDIR: "a file stands where a folder must be; choose another folder",
    errno.EEXIST: "a file stands where a folder must be; choose another folder",
}


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError whose cause the caller can remove into one StorageError that names the place."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        remedy = _REMEDIES.get(error.errno, "choose another folder")
        raise StorageError(f"folder '{error.filename or folder}': {error.strerror}; {remedy}.") from error
