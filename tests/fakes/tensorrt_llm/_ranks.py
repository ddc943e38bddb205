"""Worker processes, one a rank: they compute nothing, and can die."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Ranks"]

_WORKER = """
import os, sys
print(f"[rank {sys.argv[1]}] pid {os.getpid()} ready", flush=True)
sys.stdin.read()
"""
_DYING = """
import sys
print(f"[rank {sys.argv[1]}] out of memory", flush=True)
sys.exit(9)
"""


class Ranks:
    """``on_death(text)`` is called once for each that dies before `close`, with its last lines."""

    def __init__(self, count: int, on_death: Callable[[str], None], *, last_dies: bool) -> None:
        self._on_death = on_death
        self._closing = False
        programs = [_WORKER] * (count - 1) + [_DYING if last_dies else _WORKER]
        self._workers = [self._start(rank, program) for rank, program in enumerate(programs)]
        self._ready = [threading.Event() for _ in self._workers]
        self._readers = [threading.Thread(target=self._follow, args=(rank,), daemon=True) for rank in range(count)]
        for reader in self._readers:
            reader.start()
        for ready in self._ready:
            ready.wait()

    def kill_last(self) -> None:
        self._workers[-1].kill()

    def close(self) -> None:
        self._closing = True
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.close()
        for reader in self._readers:
            reader.join()

    @staticmethod
    def _start(rank: int, program: str) -> subprocess.Popen[str]:
        command = [sys.executable or "python3", "-c", program, str(rank)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _follow(self, rank: int) -> None:
        """Pass its lines on, and wait for its end."""
        worker, last = self._workers[rank], deque[str](maxlen=5)
        assert worker.stdout is not None
        with worker.stdout:
            for line in worker.stdout:
                sys.stderr.write(line)
                last.append(line)
                if line.rstrip().endswith("ready"):
                    self._ready[rank].set()
        code = worker.wait()
        if not self._closing:
            self._on_death(f"rank {rank} ended with code {code}. Its last lines:\n{''.join(last)}")
        self._ready[rank].set()
