"""The cache folder of builds: fetched files, and the sha256 of files already read once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["cache_folder", "sha256_of_file"]

_HASHES = "sha256.json"
_CHUNK = 1 << 20


def cache_folder() -> Path:
    """``$TRITON_LLM_CACHE``, else ``~/.cache/triton-llm``."""
    named = os.environ.get("TRITON_LLM_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "triton-llm"


def sha256_of_file(path: Path, report: Callable[[int], None] = lambda done: None) -> str:
    """The file's sha256, remembered by size, mtime and inode. ``report`` is told the bytes read so far."""
    status = path.stat()
    stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
    key = str(path.resolve())
    known = _remembered().get(key)
    if isinstance(known, list) and known[:3] == stamp:
        report(status.st_size)
        return str(known[3])
    digest = _read(path, report)
    _remember(key, [*stamp, digest])
    return digest


def _read(path: Path, report: Callable[[int], None]) -> str:
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            report(done)
    return digest.hexdigest()


def _remembered() -> dict[str, object]:
    try:
        found = json.loads((cache_folder() / _HASHES).read_text("utf-8"))
    except (OSError, ValueError):
        return {}  # none yet, or torn: read the files again
    return found if isinstance(found, dict) else {}


def _remember(key: str, value: list[object]) -> None:
    file = cache_folder() / _HASHES
    scratch = file.with_name(f"{_HASHES}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(json.dumps({**_remembered(), key: value}), "utf-8")
        scratch.replace(file)
    except OSError:
        return  # a cache that cannot be written only costs time
