"""Blocks as files: one a block, named by its hash, in a folder that other models and processes may share.

``FOLDER/<key>/<two digits>/<digest>.kv``. The key says everything that the content depends on, so a block of another
model, precision, layout or version lies elsewhere. A file is 80 bytes of header (magic, key, digest, size, checksum
of all the rest) and the content; it is written under another name and renamed, so that no one reads half of it, and
what a power cut leaves of it fails its checksum. The file's mtime is its last use.

The content tells of what people asked: folders and files are their owner's alone.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import xxhash

__all__ = ["KvFiles"]

_log = logging.getLogger(__name__)
_MAGIC = b"tritonKV"
_HEADER = struct.Struct("<8s32s16sQ")
_CHECKSUM_BYTES = 16
_BEGIN = _HEADER.size + _CHECKSUM_BYTES  # of the content
_KEY_FOLDER = re.compile(r"[0-9a-f]{64}")
_SCRATCH = re.compile(r"\.[0-9a-f]{16}\.part")
_SCRATCH_SECONDS = 10.0  # a write takes milliseconds: an older scratch file is a dead process's
_NAME = re.compile(r"[0-9a-f]{32}\.kv")
_ROOM = 15 / 16  # of the cap is kept when the cap was passed, so that not every write has to look for the oldest

Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True)
class _File:
    last_used_ns: int
    size: int
    path: Path


class KvFiles:
    """The blocks of one ``key`` (32 bytes) under ``folder``, whose block files of all keys take ``cap`` bytes at most.

    Processes that share the folder each hold it to their own cap; between two looks it may pass it by a sixteenth for
    each. Methods that touch the disk are called by one thread; ``has`` and ``len`` by any.
    """

    def __init__(
        self, folder: Path, key: bytes, cap: int, *, block_bytes: int, clock: Callable[[], float] = time.time
    ) -> None:
        """Raises OSError where the folder cannot be made or read."""
        self._block_bytes = block_bytes
        self._folder = folder
        self._own = folder / key.hex()
        self._key = key
        self._cap = cap
        self._clock = clock
        self._known: dict[bytes, None] = {}
        self._total = 0  # bytes of block files, as last seen and with what was written since
        self._unseen = 0  # bytes written since the last look
        self.damaged = 0  # files that could not be read, or were not what their names said
        self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.look()

    def __len__(self) -> int:
        return len(self._known)

    def has(self, digest: bytes) -> bool:
        """As far as is known: another process may have added or removed it since."""
        return digest in self._known

    def write(self, digest: bytes, content: Sequence[Buffer]) -> None:
        """Store a block, unless the cap holds none; raises OSError where the disk refuses."""
        whole = _BEGIN + self._block_bytes
        if whole > self._cap * _ROOM:
            return
        head = self._head(digest)
        self._write(self._path(digest), [head, _checksum(head, content), *content])
        self._known[digest] = None
        self._total += whole
        self._unseen += whole
        if self._total > self._cap or self._unseen > self._cap / 16:
            self.look()

    def read(self, digest: bytes) -> memoryview | None:
        """The block's content if all of it is there and right. A file that is not what it should be is removed."""
        path = self._path(digest)
        try:
            with open(path, "rb", opener=_no_link) as stream:
                data = memoryview(stream.read(_BEGIN + self._block_bytes + 1))
                right = self._is_right(digest, data)
                if right:
                    os.utime(stream.fileno())
        except OSError as error:
            self._known.pop(digest, None)
            if not isinstance(error, FileNotFoundError):  # which another process has removed
                self._tell(path, f"{error}; it is passed over")
            return None
        if right:
            return data[_BEGIN:]
        self._remove_damaged(digest, path)
        return None

    def touch(self, digest: bytes) -> None:
        """Make this use the block's last."""
        with suppress(FileNotFoundError):  # another process has removed it
            os.utime(self._path(digest), follow_symlinks=False)

    def look(self) -> None:
        """See what all processes have stored; remove what was used least recently beyond the cap, and dead scratch."""
        files = sorted(self._files(), key=lambda file: file.last_used_ns)
        total = sum(file.size for file in files)
        room = self._cap * _ROOM if total > self._cap else total
        kept: dict[bytes, None] = {}
        for file in files:
            if total > room:
                file.path.unlink(missing_ok=True)
                total -= file.size
            elif file.path.is_relative_to(self._own):
                kept[bytes.fromhex(file.path.stem)] = None
        self._known, self._total, self._unseen = kept, total, 0

    def _path(self, digest: bytes) -> Path:
        name = digest.hex()
        return self._own / name[:2] / f"{name}.kv"

    def _write(self, path: Path, parts: Sequence[Buffer]) -> None:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        scratch = path.parent / f".{secrets.token_hex(8)}.part"  # containers that share the folder share process ids
        try:
            with open(scratch, "xb", opener=_private) as stream:
                for part in parts:
                    stream.write(part)
            scratch.replace(path)
        except OSError:
            with suppress(OSError):  # the first error is the one to tell
                scratch.unlink(missing_ok=True)
            raise

    def _is_right(self, digest: bytes, data: memoryview) -> bool:
        head, content = data[: _HEADER.size], data[_BEGIN:]
        if head != self._head(digest) or content.nbytes != self._block_bytes:
            return False
        return data[_HEADER.size : _BEGIN] == _checksum(head, [content])

    def _head(self, digest: bytes) -> bytes:
        return _HEADER.pack(_MAGIC, self._key, digest, self._block_bytes)

    def _remove_damaged(self, digest: bytes, path: Path) -> None:
        self._known.pop(digest, None)
        self._tell(path, "damaged or another's; it is removed, and the block computed again")
        path.unlink(missing_ok=True)

    def _tell(self, path: Path, what: str) -> None:
        """The first loudly: where one is damaged, a thousand may be."""
        _log.log(logging.DEBUG if self.damaged else logging.WARNING, "KV block file '%s': %s", path, what)
        self.damaged += 1

    def _files(self) -> Iterator[_File]:
        """Every block file of every key; scratch files of the dead are removed on the way."""
        for key in _folders(self._folder, _KEY_FOLDER):
            for part in _folders(key, re.compile(r"[0-9a-f]{2}")):
                for entry in _entries(part):
                    with suppress(FileNotFoundError):  # removed by another process meanwhile
                        status = entry.stat(follow_symlinks=False)
                        if _NAME.fullmatch(entry.name):
                            yield _File(status.st_mtime_ns, status.st_size, Path(entry.path))
                        elif _SCRATCH.fullmatch(entry.name) and self._clock() - status.st_mtime > _SCRATCH_SECONDS:
                            os.unlink(entry.path)


def _folders(folder: Path, name: re.Pattern[str]) -> list[Path]:
    return [Path(e.path) for e in _entries(folder) if name.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _checksum(head: Buffer, content: Sequence[Buffer]) -> bytes:
    digest = xxhash.xxh3_128(head)
    for part in content:
        digest.update(part)
    return digest.digest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
