"""One command at a time changes the versions of a served model."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from build_engines.errors import StorageError, storage_errors

__all__ = ["version_lock"]


@contextmanager
def version_lock(name: str, repository: Path) -> Iterator[None]:
    """Held inside the block; whoever dies there leaves no lock behind. Raises StorageError: somebody has it."""
    folder = repository / name
    with storage_errors(folder):
        handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(
                f"model '{name}': another command changes its versions; ask again when it has ended."
            ) from error
        yield
    finally:
        os.close(handle)
