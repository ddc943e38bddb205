from __future__ import annotations

import hashlib
import os
from pathlib import Path

from build_engines.cache import cache_folder, sha256_of_file


def test_a_hash_is_read_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    assert sha256_of_file(file) == hashlib.sha256(b"one").hexdigest()
    assert (cache_folder() / "sha256.json").is_file()
    file.write_bytes(b"two!")
    assert sha256_of_file(file) == hashlib.sha256(b"two!").hexdigest()


def test_the_remembered_hash_is_used_while_size_mtime_and_inode_hold(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    stamp = file.stat()
    before = sha256_of_file(file)
    with file.open("r+b") as stream:
        stream.write(b"two")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert sha256_of_file(file) == before


def test_a_torn_or_unwritable_cache_only_costs_time(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    cache.write_text("a file where the folder would be")
    assert sha256_of_file(file) == hashlib.sha256(b"one").hexdigest()


def test_reading_reports_the_bytes_done(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes((1 << 20) + 5))
    seen: list[int] = []
    sha256_of_file(file, seen.append)
    assert seen == [1 << 20, (1 << 20) + 5]
