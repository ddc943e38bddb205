"""Blocks that left the pool, in host memory and on disk, and their way back.

What the pool forgets goes to host memory, and through a thread of its own to disk; while the engine is idle, and when
it closes, the blocks that only the pool has are written too, so that a restarted server knows what the last one knew.
A prompt's blocks are read from disk into host memory while the prompt waits in the queue; it waits for them no longer
than computing them would take, so a hanging disk costs at most as much again. Admitted, it gets those that are in
host memory by then, before its first step. A preempted sequence's full blocks come back in the same way.

Loading happens only where it was lately cheaper than computing (see kv_costs). Losing a block is never an error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.kv_costs import LoadCosts
from python_llm.engines.paged.kv_disk import KvDisk, ReadJob
from python_llm.engines.paged.kv_files import KvFiles
from python_llm.engines.paged.kv_host import Content, HostBlocks
from python_llm.engines.paged.kv_layout import BlockLayout, key_of
from python_llm.engines.paged.no_store import NoStore
from python_llm.engines.paged.sequence import Sequence
from python_llm.settings import ServingConfig

if TYPE_CHECKING:
    from python_llm.engines.paged.runner import ModelRunner

__all__ = ["KvStore", "open_store"]

_log = logging.getLogger(__name__)
_STAGING_BYTES = 256 << 20  # of host memory for blocks on their way, where only a disk tier was asked for
_CLOSE_SECONDS = 5.0  # for writing what only the pool has


class KvStore(NoStore):
    """See the module's text. ``woken`` is called on the disk's thread when the engine has a reason to look again."""

    def __init__(
        self,
        runner: ModelRunner,
        pool: BlockPool,
        serving: ServingConfig,
        identity: Mapping[str, Any],
        woken: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.costs = LoadCosts(runner.block_size)
        self._runner = runner
        self._pool = pool
        self._clock = clock
        self._layout = BlockLayout.of(runner.export_blocks([0]))
        cap = serving.kv_host_bytes or _STAGING_BYTES
        self._host = HostBlocks(cap)
        self._most_read = cap // self._layout.nbytes // 2  # blocks of one prompt; more would push each other out
        self._disk = self._open_disk(serving, identity, woken) if serving.kv_disk_bytes else None
        self._disk_off = bool(serving.kv_disk_bytes) and self._disk is None
        self._unsaved: dict[bytes, None] = {}
        self._reading: dict[Sequence, ReadJob] = {}
        self._hits = self._misses = self._loads = self._offloads = 0
        pool.forgetting = self._offload

    @property
    def has_idle_work(self) -> bool:
        return bool(self._unsaved) and self._disk is not None and self._disk.has_room

    def remembered(self, digest: bytes) -> None:
        if self._disk is not None and self._disk.writable and not self._disk.files.has(digest):
            self._unsaved[digest] = None

    def computed(self, prompt_tokens: int, tokens: int, seconds: float) -> None:
        self.costs.learn_step(prompt_tokens, tokens, seconds)

    def used(self, digests: list[bytes]) -> None:
        if digests:
            self._host.touch(digests)
            if self._disk is not None:
                self._disk.used(digests)

    def read_ahead(self, sequence: Sequence, wanted: Iterator[bytes]) -> None:
        if self._disk is None:
            return
        files = self._disk.files
        here = islice((d for d in _while(lambda d: d in self._host or files.has(d), wanted)), self._most_read)
        to_read = [digest for digest in here if digest not in self._host]
        self._reading = {s: job for s, job in self._reading.items() if not (s.over or job.over)}
        if to_read and self.costs.read_pays():
            job = ReadJob(to_read, self._clock() + self.costs.compute_seconds(len(to_read)))
            self._reading[sequence] = job
            self._disk.read(job)

    def is_ready(self, sequence: Sequence) -> bool:
        job = self._reading.get(sequence)
        if job is None:
            return True
        job.over = job.over or self._clock() >= job.deadline
        return job.over

    def patience(self) -> float | None:
        waits = [job.deadline for sequence, job in self._reading.items() if not (sequence.over or job.over)]
        return max(0.0, min(waits) - self._clock()) if waits else None

    def found(self, wanted: Iterable[bytes]) -> list[Content]:
        digests: list[bytes] = []
        contents: list[Content] = []
        for digest in wanted:
            content = self._host.get(digest)
            if content is None:
                self._misses += not contents
                break
            digests.append(digest)
            contents.append(content)
        self._hits += len(contents)
        self.used(digests)
        return contents if contents and self.costs.copy_pays() else []

    def fill(self, blocks: list[int], contents: list[Content]) -> None:
        begun = self._clock()
        for block, content in zip(blocks, contents, strict=True):  # gathered first they take twice as long
            self._runner.import_blocks([block], content)
        self.costs.copy.learn((self._clock() - begun) / len(blocks))
        self._loads += len(blocks)

    def work_idly(self) -> None:
        if self.has_idle_work:
            self._save(next(iter(self._unsaved)))

    def figures(self) -> Mapping[str, int]:
        disk = self._disk
        return {
            "host_blocks": len(self._host),
            "disk_blocks": len(disk.files) if disk else 0,
            "store_hits": self._hits,
            "store_misses": self._misses,
            "store_loads": self._loads,
            "offloads": self._offloads,
            "store_errors": (disk.errors + disk.files.damaged if disk else 0) + self._disk_off,
            "disk_off": int(self._disk_off if disk is None else not disk.writable),
        }

    def close(self) -> None:
        """After the engine's thread has ended."""
        deadline = self._clock() + _CLOSE_SECONDS
        if self._disk is None:
            return
        while self._unsaved and self._disk.wait_for_room(deadline):
            self._save(next(iter(self._unsaved)))
        self._disk.close(deadline)

    def _offload(self, block: int, digest: bytes) -> None:
        """The pool forgets this block, whose content is still there."""
        unsaved = self._unsaved.pop(digest, 0) is None
        content = self._host.get(digest)
        if content is None and (unsaved or self.costs.copy_pays()):
            content = self._runner.export_blocks([block])
            self._host.put(digest, content)
            self._offloads += 1
        if content is not None and self._disk is not None and not self._disk.files.has(digest):
            self._disk.write(digest, content)

    def _save(self, digest: bytes) -> None:
        del self._unsaved[digest]
        block = self._pool.find(digest)
        if block is not None and self._disk is not None:
            self._disk.write(digest, self._host.get(digest) or self._runner.export_blocks([block]))

    def _open_disk(
        self, serving: ServingConfig, identity: Mapping[str, Any], woken: Callable[[], None]
    ) -> KvDisk | None:
        folder = Path(serving.kv_disk_path)
        said = {
            **identity,
            "kv_cache_precision": serving.kv_cache_precision,
            "inference_precision": serving.inference_precision,
        }
        try:
            key, size = key_of(said, self._layout), self._layout.nbytes
            files = KvFiles(folder, key, serving.kv_disk_bytes, block_bytes=size)
        except OSError as error:
            _log.warning("KV store: %s: nothing is stored on disk; serving goes on", error)
            return None
        return KvDisk(files, self._layout, self._host, self.costs, woken, clock=self._clock)


def open_store(
    runner: ModelRunner,
    pool: BlockPool,
    serving: ServingConfig,
    identity: Mapping[str, Any],
    woken: Callable[[], None],
) -> NoStore:
    """The store that the knobs ask for. ``identity``: what the runner's keys and values depend on, beside the knobs."""
    wanted = serving.prefix_cache and (serving.kv_host_bytes or serving.kv_disk_bytes)
    return KvStore(runner, pool, serving, identity, woken) if wanted else NoStore()


def _while(holds: Callable[[bytes], bool], digests: Iterable[bytes]) -> Iterator[bytes]:
    for digest in digests:
        if not holds(digest):
            return
        yield digest
