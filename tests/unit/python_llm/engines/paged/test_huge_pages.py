"""Moving memory into huge pages: which memory, that its content stays, and that what is told is so."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import pytest

from python_llm.engines.paged import huge_pages
from python_llm.engines.paged.huge_pages import use_huge_pages

MB = 1 << 20


def mapping(begin: int, size: int, resident: int, *, kind: str = "rw-p", file: str = "00:00 0") -> str:
    return f"{begin:x}-{begin + size:x} {kind} 00000000 {file} \nSize: {size >> 10} kB\nRss: {resident >> 10} kB\n"


def test_only_large_private_memory_that_is_there_is_moved() -> None:
    whole = mapping(3 * MB, 9 * MB, 9 * MB)
    others = [
        mapping(100 * MB, 2 * MB, 2 * MB),
        mapping(200 * MB, 64 * MB, 8 * MB),
        mapping(300 * MB, 64 * MB, 64 * MB, kind="r--p"),
        mapping(400 * MB, 64 * MB, 64 * MB, kind="rw-s"),
        mapping(500 * MB, 64 * MB, 64 * MB, file="08:01 77 /models/openvino_model.bin"),
    ]
    assert list(huge_pages._large_mappings("".join([*others[:2], whole, *others[2:]]))) == [(4 * MB, 12 * MB)]


def test_what_is_moved_stays_what_it_was_and_what_is_told_is_so() -> None:
    word = bytes(range(256)) * (64 * MB // 256)
    with mmap.mmap(-1, 64 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(word)
        told = use_huge_pages()
        assert memory[:] == word
        smaps = Path("/proc/self/smaps_rollup").read_text()
    said = re.search(r"AnonHugePages:\s+(\d+) kB", smaps)
    assert said is not None
    assert told == pytest.approx(int(said[1]) * 1024, abs=8 * MB)


def test_without_linux_nothing_happens(tmp_path: Path) -> None:
    assert use_huge_pages(tmp_path / "smaps") == 0
