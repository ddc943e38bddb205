"""Progress of a long command, phase by phase: silent, as lines, or as bars on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Protocol, TextIO

__all__ = ["Bars", "Lines", "Progress", "Silent", "for_stream"]


class Progress(Protocol):
    def phase(self, name: str) -> None:
        """A phase begins; the one before it is done."""

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        """How much of this phase is done so far, in bytes or another unit."""

    def note(self, text: str) -> None:
        """Something to know between two phases."""

    def close(self) -> None:
        """The last phase is done."""


class Silent:
    """Says nothing."""

    def phase(self, name: str) -> None:
        pass

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        pass

    def note(self, text: str) -> None:
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

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        pass

    def note(self, text: str) -> None:
        self.close()
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        if self._name:
            seconds = time.monotonic() - self._began
            print(f"{self._name}: {seconds:.1f} s", file=self._stream, flush=True)
        self._name = ""


class Bars(Lines):
    """As Lines, with a bar where the amount of work is known and a running clock where it is not."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._bar: Any = None
        self._clock: _Clock | None = None

    def phase(self, name: str) -> None:
        self.close()
        self._name, self._began = name, time.monotonic()
        self._clock = _Clock(name, self._stream)

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        if self._bar is None:
            self._stop_clock()
            self._bar = _bar(self._name, total, unit, self._stream)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._stop_clock()
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        super().close()

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.stop()
            self._clock = None


def _bar(name: str, total: int, unit: str, stream: TextIO) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, unit=unit, unit_scale=True, desc=name, file=stream, leave=False, delay=0.5)


class _Clock:
    """Rewrites one line with the seconds gone, until it is stopped."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._text, self._stream, self._began = f"{name} ...", stream, time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._write(" " * (len(self._text) + 8) + "\r")

    def _run(self) -> None:
        self._write(self._text)
        while not self._stopped.wait(1.0):
            self._write(f"{self._text} {time.monotonic() - self._began:.0f} s")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r{text}")
        self._stream.flush()


def for_stream(stream: TextIO | None = None) -> Progress:
    """Bars when ``stream`` (standard error by default) is a terminal, else lines."""
    stream = stream or sys.stderr
    return Bars(stream) if stream.isatty() else Lines(stream)
