"""Progress of a long command, phase by phase: silent, as lines, or as bars on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol, TextIO

__all__ = ["Bars", "Lines", "Progress", "Silent", "for_stream"]


class Progress(Protocol):
    def phase(self, name: str) -> None:
        """A phase begins; the one before it is done."""

    def advance(self, done: int, total: int) -> None:
        """Bytes of this phase done so far."""

    def close(self) -> None:
        """The last phase is done."""


class Silent:
    """Says nothing."""

    def phase(self, name: str) -> None:
        pass

    def advance(self, done: int, total: int) -> None:
        pass

    def close(self) -> None:
        pass


class Lines:
    """One line as each phase begins and its seconds as it ends; for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._name = ""
        self._began = 0.0

    def phase(self, name: str) -> None:
        self.close()
        self._name, self._began = name, time.monotonic()
        print(f"{name} ...", file=self._stream, flush=True)

    def advance(self, done: int, total: int) -> None:
        pass

    def close(self) -> None:
        if self._name:
            seconds = time.monotonic() - self._began
            print(f"{self._name}: {seconds:.1f} s", file=self._stream, flush=True)
        self._name = ""


class Bars(Lines):
    """As Lines, with a bar where the amount of work is known."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._bar: Any = None

    def advance(self, done: int, total: int) -> None:
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(
                total=total, unit="B", unit_scale=True, desc=self._name, file=self._stream, leave=False, delay=0.5
            )
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        super().close()


def for_stream(stream: TextIO | None = None) -> Progress:
    """Bars when ``stream`` (standard error by default) is a terminal, else lines."""
    stream = stream or sys.stderr
    return Bars(stream) if stream.isatty() else Lines(stream)
