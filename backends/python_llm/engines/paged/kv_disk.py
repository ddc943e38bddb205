"""The thread that reads and writes block files, so that no token waits for a disk.

Reads go before writes. Writes wait in a bounded queue; what finds it full is not stored. The first refusal of the
disk (full, read-only, gone) ends writing for good, with one warning; reading goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from python_llm.engines.paged.kv_costs import LoadCosts
from python_llm.engines.paged.kv_files import KvFiles
from python_llm.engines.paged.kv_host import Content, HostBlocks
from python_llm.engines.paged.kv_layout import BlockLayout

__all__ = ["KvDisk", "ReadJob"]

_log = logging.getLogger(__name__)
_QUEUED_WRITES = 64  # blocks, at most
_QUEUED_BYTES = 64 << 20  # of them; one block in any case
_TOUCH_SECONDS = 60.0  # a file's last use is written down at most this often


@dataclass(slots=True, eq=False)
class ReadJob:
    """Blocks to bring to host memory, in this order, until ``over`` is set by either side."""

    digests: list[bytes]
    deadline: float  # of the clock; who wants the blocks waits no longer
    over: bool = False


class KvDisk:
    """``woken`` is called on the thread whenever a read is over or the write queue has room again."""

    def __init__(
        self,
        files: KvFiles,
        layout: BlockLayout,
        host: HostBlocks,
        costs: LoadCosts,
        woken: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.files = files
        self.writable = True
        self.errors = 0
        self._layout = layout
        self._host = host
        self._costs = costs
        self._woken = woken
        self._clock = clock
        self._work = threading.Condition()  # guards the five below
        self._reads: deque[ReadJob] = deque()
        self._writes: deque[tuple[bytes, Content]] = deque()
        self._used: dict[bytes, None] = {}
        self._touched: dict[bytes, float] = {}  # digest -> when its file's last use was written down
        self._closed = False
        self._most_writes = max(1, min(_QUEUED_WRITES, _QUEUED_BYTES // max(1, layout.nbytes)))
        self._thread = threading.Thread(target=self._run, name="kv-disk", daemon=True)
        self._thread.start()

    @property
    def has_room(self) -> bool:
        return self.writable and not self._closed and len(self._writes) < self._most_writes

    def write(self, digest: bytes, content: Content) -> bool:
        """Store the block some time, unless the queue is full."""
        with self._work:
            if not self.has_room:
                return False
            self._writes.append((digest, content))
            self._work.notify_all()
        return True

    def wait_for_room(self, deadline: float) -> bool:
        """Whether another block can be written, by ``deadline`` of the clock."""
        with self._work:
            self._work.wait_for(self._answers, max(0.0, deadline - self._clock()))
            return self.has_room

    def read(self, job: ReadJob) -> None:
        with self._work:
            self._reads.append(job)
            job.over = self._closed
            self._work.notify_all()

    def used(self, digests: list[bytes]) -> None:
        """These blocks were wanted now: they are to be removed later than others, the first of them last."""
        now = self._clock()
        with self._work:
            for digest in reversed(digests):
                if self.files.has(digest) and now - self._touched.get(digest, -_TOUCH_SECONDS) >= _TOUCH_SECONDS:
                    self._used[digest] = None
            if self._used:
                self._work.notify_all()

    def close(self, deadline: float) -> None:
        """Write what is queued until ``deadline`` of the clock."""
        with self._work:
            self._work.wait_for(lambda: not (self._writes and self.writable), max(0.0, deadline - self._clock()))
            self._closed = True
            self._work.notify_all()
        self._thread.join(max(0.1, deadline - self._clock()))  # a disk that hangs holds a daemon thread, not us

    def _answers(self) -> bool:
        """Whether waiting for room is over: there is some, or there will never be."""
        return self.has_room or self._closed or not self.writable

    def _run(self) -> None:
        try:
            while self._work_once():
                self._woken()
        except Exception:
            _log.exception("KV store: the disk's thread died; blocks are computed instead of loaded")
            self.errors += 1
            self.writable = False
        finally:
            with self._work:
                self._closed = True
                for job in self._reads:
                    job.over = True
                self._work.notify_all()
            self._woken()

    def _work_once(self) -> bool:
        """The most urgent piece of work; False once closed."""
        with self._work:
            self._work.wait_for(lambda: self._closed or self._reads or self._writes or self._used)
            if self._closed:
                return False
            job = self._reads.popleft() if self._reads else None
            writing = self._writes[0] if self._writes and job is None else None
            used, self._used = ({}, self._used) if job or writing else (self._used, {})
        if job is not None:
            try:
                self._read(job)
            finally:
                job.over = True
        elif writing is not None:
            self._write(*writing)
            with self._work:
                self._writes.popleft()
                self._work.notify_all()
        else:
            self._touch(list(used))
        return True

    def _read(self, job: ReadJob) -> None:
        for digest in job.digests:
            begun = self._clock()
            if job.over or begun >= job.deadline:
                break
            data = self.files.read(digest)
            if data is None:
                break
            self._host.put(digest, self._layout.unpack(data))
            self._costs.read.learn(self._clock() - begun)

    def _write(self, digest: bytes, content: Content) -> None:
        if not self.writable or self.files.has(digest):
            return
        try:
            self.files.write(digest, self._layout.pack(content))
        except OSError as error:
            self.writable = False
            self.errors += 1
            _log.warning("KV store: %s: nothing more is stored on disk until the next start; serving goes on", error)

    def _touch(self, digests: list[bytes]) -> None:
        now = self._clock()
        for digest in digests:
            self.files.touch(digest)
            self._touched[digest] = now
        if len(self._touched) > 2 * len(self.files) + 1024:
            self._touched = {d: t for d, t in self._touched.items() if self.files.has(d)}
