"""A file system of its own for a test that fills a disk: never the real one."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NoSmallDisk", "fill", "small_disk"]

_CHUNK = 1 << 16


class NoSmallDisk(Exception):
    """This machine lets nobody mount one; the text says what is missing."""


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A tmpfs of ``size`` bytes at ``folder`` until the block ends; raises NoSmallDisk where mounting is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if not (mount and umount):
        raise NoSmallDisk("mount and umount are missing: install the package mount")
    command = [mount, "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoSmallDisk(
            f"mounting a tmpfs is refused here: {done.stderr.strip()}; run as root, in a container with CAP_SYS_ADMIN"
        )
    try:
        yield folder
    finally:
        # Lazily: a process that hangs on it must not leave it mounted.
        subprocess.run([umount, "-l", str(folder)], check=True)


def fill(disk: Path, ballast: Path) -> None:
    """Write ``ballast`` until ``disk``, a small one, has no byte left."""
    assert os.path.ismount(disk), f"'{disk}' is no disk of its own"
    with ballast.open("ab", buffering=0) as stream:
        for size in (_CHUNK, 1):
            try:
                while stream.write(b"\0" * size):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
