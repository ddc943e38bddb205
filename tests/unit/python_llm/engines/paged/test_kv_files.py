"""Block files: what comes back is what went in, or nothing; strangers' files stay; the cap holds by last use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from python_llm.engines.paged.kv_files import KvFiles

KEY = bytes(range(32))
SIZE = 100
FILE = SIZE + 80  # with its header


def files_in(folder: Path, cap: int = 1 << 20, key: bytes = KEY) -> KvFiles:
    return KvFiles(folder, key, cap, block_bytes=SIZE)


def digest_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def content_of(number: int) -> bytes:
    return bytes([number]) * SIZE


def write(files: KvFiles, *numbers: int) -> None:
    for number in numbers:
        files.write(digest_of(number), [content_of(number)[:30], content_of(number)[30:]])


def read(files: KvFiles, number: int) -> bytes | None:
    found = files.read(digest_of(number))
    return None if found is None else bytes(found)


def blocks_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kv"))


def age(folder: Path, number: int, seconds: int) -> None:
    (path,) = folder.rglob(f"{digest_of(number).hex()}.kv")
    os.utime(path, (seconds, seconds))


def test_what_was_written_is_read_by_the_next_start(tmp_path: Path) -> None:
    write(files_in(tmp_path), 1, 2)
    files = files_in(tmp_path)
    assert len(files) == 2
    assert (read(files, 1), read(files, 2), read(files, 3)) == (content_of(1), content_of(2), None)
    assert not files.has(digest_of(3))
    assert files.damaged == 0
    assert [path.stat().st_mode & 0o777 for path in blocks_in(tmp_path)] == [0o600, 0o600]
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*") if path.is_dir())


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "magic": lambda path: _flip(path, 0),
    "key": lambda path: _flip(path, 8),
    "digest": lambda path: _flip(path, 40),
    "size": lambda path: _flip(path, 56),
    "checksum": lambda path: _flip(path, 64),
    "first byte": lambda path: _flip(path, 80),
    "last byte": lambda path: _flip(path, FILE - 1),
    "empty": lambda path: path.write_bytes(b""),
    "cut in the header": lambda path: os.truncate(path, 50),
    "cut in the content": lambda path: os.truncate(path, FILE - 1),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "another's content": lambda path: path.write_bytes(blocks_in(path.parents[2])[1].read_bytes()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_removed_and_never_loaded(tmp_path: Path, damage: str) -> None:
    files = files_in(tmp_path)
    write(files, 1, 2)
    DAMAGES[damage](blocks_in(tmp_path)[0])
    assert read(files, 1) is None
    assert files.damaged == 1
    assert not files.has(digest_of(1))
    assert len(blocks_in(tmp_path)) == 1
    write(files, 1)
    assert (read(files, 1), read(files, 2)) == (content_of(1), content_of(2))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    files = files_in(tmp_path / "kv")
    write(files, 1)
    (path,) = blocks_in(tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert read(files, 1) is None
    assert (tmp_path / "elsewhere").exists()


def test_another_key_sees_nothing_of_it_and_shares_the_cap(tmp_path: Path) -> None:
    write(files_in(tmp_path), *range(8))
    for number in range(8):
        age(tmp_path, number, 1000 + number)
    other = files_in(tmp_path, 8 * FILE, key=bytes(32))
    assert len(other) == 0
    assert read(other, 1) is None
    write(other, 20)
    assert len(other) == 1
    assert len(blocks_in(tmp_path)) == 7
    kept = files_in(tmp_path)
    assert not kept.has(digest_of(0))
    assert kept.has(digest_of(7))


def test_the_cap_holds_and_what_was_used_last_stays(tmp_path: Path) -> None:
    files = files_in(tmp_path, 10 * FILE)
    write(files, *range(10))
    for number in range(10):
        age(tmp_path, number, 1000 + number)
    assert read(files, 0) == content_of(0)
    files.touch(digest_of(1))
    files.touch(digest_of(99))  # gone, or never there: nothing happens
    write(files, 10)
    assert sum(path.stat().st_size for path in blocks_in(tmp_path)) <= 10 * FILE
    assert all(files.has(digest_of(number)) for number in (0, 1, 9, 10))
    assert not files.has(digest_of(2))


def test_a_block_that_the_cap_does_not_hold_is_not_written(tmp_path: Path) -> None:
    files = files_in(tmp_path, FILE)
    write(files, 1)
    assert blocks_in(tmp_path) == []


def test_files_of_other_names_stay_and_dead_scratch_goes(tmp_path: Path) -> None:
    write(files_in(tmp_path), 1)
    (block,) = blocks_in(tmp_path)
    theirs = [tmp_path / "notes.txt", block.parent / "x.kv", tmp_path / "ab" / block.name]
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_text("theirs")
    young, old = (block.parent / f".{letter * 16}.part" for letter in "ab")
    young.touch()
    old.touch()
    os.utime(old, (1, 1))
    files = files_in(tmp_path, 1)
    assert all(path.read_text() == "theirs" for path in theirs)
    assert (young.exists(), old.exists(), block.exists()) == (True, False, False)
    assert len(files) == 0


def test_what_another_process_removed_is_a_miss(tmp_path: Path) -> None:
    one, two = files_in(tmp_path), files_in(tmp_path)
    write(one, 1)
    two.look()
    (path,) = blocks_in(tmp_path)
    path.unlink()
    assert two.has(digest_of(1))
    assert read(two, 1) is None
    assert not two.has(digest_of(1))
    assert two.damaged == 0


def test_two_at_once_in_one_folder_do_no_harm(tmp_path: Path) -> None:
    """Both write, read and trim the same few names as fast as they can."""
    wrong: list[object] = []

    def work(cap: int) -> None:
        files = files_in(tmp_path, cap)
        for turn in range(300):
            number = turn % 7
            try:
                write(files, number)
                found = read(files, (number + 3) % 7)
            except OSError as error:
                wrong.append(error)
                return
            if found not in (None, content_of((number + 3) % 7)):
                wrong.append(found)
        wrong.extend([files.damaged] if files.damaged else [])

    threads = [threading.Thread(target=work, args=(count * FILE,)) for count in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert list(tmp_path.rglob("*.part")) == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        files_in(tmp_path / "file" / "kv")
