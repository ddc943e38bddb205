"""How many KV blocks there are: from the byte budget, or from the memory that is left once the weights are loaded."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from python_llm.errors import CallerMistake
from python_llm.settings import ServingConfig

__all__ = ["available_memory", "block_count"]

_log = logging.getLogger(__name__)
_SHARE = 0.6  # of what is left; the rest is for activations, other models and the page cache
_ROOT = Path("/")
# Controller -> its mount, the files that say limit and use, and the statistic of what the kernel takes back first.
_CGROUP_2 = ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")
_CGROUP_1 = ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def block_count(serving: ServingConfig, *, block_bytes: int, block_size: int, context_length: int) -> int:
    """Blocks that ``kv_cache_bytes`` holds; 0: a share of the free memory, and no more than could ever be used.

    Raises:
        CallerMistake: that is not even two.
    """
    budget = serving.kv_cache_bytes
    if not budget:
        length = min(serving.max_sequence_len or context_length, context_length)
        useful = serving.max_running * -(-length // block_size) * block_bytes
        budget = min(int(_SHARE * available_memory()), useful)
    elif budget > (left := available_memory()):
        _log.warning("kv_cache_bytes %d: only %d bytes of memory are left; lower it, or set 0", budget, left)
    blocks = budget // block_bytes
    if blocks < 2:
        raise CallerMistake(
            f"kv_cache_bytes {serving.kv_cache_bytes}: one block takes {block_bytes} bytes and {budget} are there; "
            f"give it at least {2 * block_bytes}."
        )
    how = "as set" if serving.kv_cache_bytes else "of the memory that is left"
    _log.info("KV cache: %d bytes %s: %d blocks of %d tokens", blocks * block_bytes, how, blocks, block_size)
    return blocks


def available_memory(root: Path = _ROOT) -> int:
    """Bytes that this process may still use: what the machine has, within the limits of its control groups."""
    return max(0, min([_machine(root), *_groups(root)]))


def _machine(root: Path) -> int:
    kilobytes = _statistics(root / "proc/meminfo")["MemAvailable:"]
    return kilobytes * 1024


def _groups(root: Path) -> Iterator[int]:
    """What each group on the way to ours, and ours, has left."""
    try:
        lines = (root / "proc/self/cgroup").read_text("ascii").splitlines()
    except FileNotFoundError:  # a kernel without control groups
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "memory" in controllers.split(","):
            mount, *files = _CGROUP_1 if controllers else _CGROUP_2
            inner = Path(path.lstrip("/"))
            # In a container the path may be the host's, while the mount shows our own group at its top.
            for group in dict.fromkeys([inner, *inner.parents, Path()]):
                yield from _left(root / mount / group, *files)


def _left(group: Path, limit: str, used: str, reclaimable: str) -> Iterator[int]:
    try:
        most, now = (group / limit).read_text("ascii").strip(), int((group / used).read_text("ascii"))
        cached = _statistics(group / "memory.stat").get(reclaimable, 0)
    except FileNotFoundError:  # the root group has no limit, and a foreign path no files
        return
    if most != "max":
        yield int(most) - now + cached


def _statistics(file: Path) -> dict[str, int]:
    return {name: int(value.split()[0]) for name, value in _pairs(file)}


def _pairs(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text("ascii").splitlines():
        name, _, value = line.partition(" ")
        yield name, value.strip()
