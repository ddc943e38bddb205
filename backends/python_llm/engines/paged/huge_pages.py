"""Weights in huge pages: each token reads all of them, and the processor looks up every page's address.

With pages of 4 kB that takes a tenth of a decoding step of one sequence, on a virtual machine at least, and how the
pages happened to lie makes processes of the same code differ by as much.
"""

from __future__ import annotations

import ctypes
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["use_huge_pages"]

_log = logging.getLogger(__name__)
_COLLAPSE = 25  # MADV_COLLAPSE of Linux 6.1: copy what is there into huge pages, now, whatever the system's setting
_HUGE = 2 << 20
_LEAST_BYTES = 4 << 20  # of a mapping
_LEAST_SHARE = 0.9  # of it that is there already: a huge page makes the rest of itself be there too
_PIECE_BYTES = 64 << 20
_SECONDS = 5.0
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0\s*(?:\[heap\])?\n")


def use_huge_pages(smaps: Path = Path("/proc/self/smaps")) -> int:
    """Move this process's large private memory into huge pages where the kernel can; the bytes that are in them then.

    What it cannot do stays as it was, without an error: the pages are the kernel's, and may be wanted elsewhere.
    """
    try:
        wanted = list(_large_mappings(smaps.read_text()))
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):  # no Linux
        return 0
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    deadline = time.monotonic() + _SECONDS
    for begin, end in wanted:
        for piece in range(begin, end, _PIECE_BYTES):
            if time.monotonic() < deadline:
                madvise(piece, min(_PIECE_BYTES, end - piece), _COLLAPSE)
    huge = sum(map(int, re.findall(r"^AnonHugePages:\s+(\d+) kB", smaps.read_text(), re.MULTILINE))) * 1024
    _log.info("%d MB of memory are in huge pages", huge >> 20)
    return huge


def _large_mappings(smaps: str) -> Iterator[tuple[int, int]]:
    """Begin and end, whole huge pages, of private memory that is nearly all there."""
    heads = list(_MAPPING.finditer(smaps))
    for head in heads:
        begin, end = (int(address, 16) for address in head.groups())
        there = re.compile(r"Rss:\s+(\d+) kB").search(smaps, head.end())
        if there is None or end - begin < _LEAST_BYTES or int(there[1]) * 1024 < _LEAST_SHARE * (end - begin):
            continue
        yield -(-begin // _HUGE) * _HUGE, end // _HUGE * _HUGE
