"""The thread that publishes a generator's metrics, once a second or so.

Two copies of one model may live in a Triton for a while: a reload starts the new one before the old one has ended.
Triton gives both the same series, and dies when one leaves them and the other goes on (2.50). So one copy publishes at
a time: who holds the turn, a name in the kernel that no death leaves behind. The other counts on and waits.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from python_llm.generator import Generator
from python_llm.publisher import Publisher
from python_llm.readings import read
from python_llm.recorder import Recorder

__all__ = ["Sampler", "Turn"]

_log = logging.getLogger(__name__)


class Turn:
    """A right that one process under the same parent has at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._socket: socket.socket | None = None

    def take(self) -> bool:
        """Whether it is ours from now on, or was before."""
        if self._socket is None:
            bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                bound.bind(_address(self._name))
            except OSError as error:
                bound.close()
                if error.errno != errno.EADDRINUSE:
                    raise
                return False
            self._socket = bound
        return True

    def leave(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _address(name: str) -> str:
    """In Linux's abstract namespace, which containers share when they share the network; parents' ids come again."""
    started = Path(f"/proc/{os.getppid()}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[19]
    text = f"{os.readlink('/proc/self/ns/pid')} {os.getppid()} {started} {name}"
    return "\0triton-llm-" + hashlib.sha256(text.encode()).hexdigest()


class Sampler:
    """Publishes until the generator is closed, and then takes the series off the port. Trouble is logged, once."""

    def __init__(
        self, generator: Generator, recorder: Recorder, pb_utils: Any, labels: Mapping[str, str], seconds: float
    ) -> None:
        """``seconds`` between two samples."""
        self._generator = generator
        self._recorder = recorder
        self._pb_utils = pb_utils
        self._labels = labels
        self._seconds = seconds
        self._turn = Turn(" ".join(labels.values()))
        self._publisher: Publisher | None = None
        self._troubled = False
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Return once the series are gone; the generator was closed before."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._try()
            while not self._generator.wait_closed(self._seconds):
                self._try()
        finally:
            self._end()

    def _try(self) -> None:
        try:
            self._sample()
        except Exception:
            if not self._troubled:
                _log.exception("metrics of %s were not published; trying on", dict(self._labels))
            self._troubled = True

    def _sample(self) -> None:
        if self._publisher is None and self._turn.take():
            self._publisher = Publisher(self._pb_utils, self._labels)
        if self._publisher is not None:
            self._publisher.publish(read(self._generator.status(), self._generator.max_running, self._recorder))

    def _end(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None
        self._turn.leave()
