"""The folder of artifacts: a build works in a hidden sibling folder, and one rename makes it the artifact.

A working folder is locked by the process that builds. When that process dies, however it dies, the lock is gone
and the next build sweeps the folder.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from build_engines.errors import StorageError, storage_errors

__all__ = ["PREFIX", "publish", "working_folder"]

PREFIX = ".build-"
_LOCK = "lock"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def working_folder(engines: Path, name: str) -> Iterator[Path]:
    """An empty folder beside the artifacts for the build of ``name``; gone when the block ends.

    Raises:
        StorageError: ``engines`` cannot be written, or another process builds ``name`` right now.
    """
    with storage_errors(engines):
        engines.mkdir(parents=True, exist_ok=True)
        folder = engines / f"{PREFIX}{name}"
        with _exclusive(engines / f"{PREFIX}{_LOCK}"):
            _sweep(engines)
            if folder.exists():
                raise StorageError(
                    f"name '{name}': another build of it is running; wait for it or choose another name."
                )
            folder.mkdir()
            lock = _try_lock(folder / _LOCK)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.close()


def publish(built: Path, target: Path) -> None:
    """Make ``built`` the folder ``target`` in one step; what stood there is removed only afterwards."""
    with storage_errors(target):
        if not target.exists():
            built.rename(target)
        elif not _exchange(built, target):
            # A file system that cannot exchange two names: the old one steps aside for the moment between.
            aside = built.with_name(f"{built.name}.old")
            target.rename(aside)
            built.rename(target)
            shutil.rmtree(aside, ignore_errors=True)


def _sweep(engines: Path) -> None:
    """Remove what dead builds left."""
    for leftover in engines.glob(f"{PREFIX}*"):
        if not leftover.is_dir():
            continue
        lock = _try_lock(leftover / _LOCK)
        if lock is not None:
            shutil.rmtree(leftover)
            lock.close()


def _try_lock(path: Path) -> IO[str] | None:
    """The locked file, or None while another process holds it."""
    stream = path.open("a")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        return None
    return stream


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a lock for the moment in which working folders are made and swept."""
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders atomically (Linux's renameat2); False where this system cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(other))
