"""How far a batch is: one line that is written anew on a terminal, nothing elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, TextIO

from python_llm.errors import ServeError

__all__ = ["Progress", "Tally"]

_EVERY_SECONDS = 0.1
_WIDTH = 24
_MOST_ERRORS_SAID = 10


class Numbered(Protocol):
    @property
    def number(self) -> int: ...


class Outcome(Protocol):
    """What came of a line: ``error`` where it ended in one."""

    @property
    def line(self) -> Numbered: ...

    @property
    def error(self) -> ServeError | None: ...

    @property
    def output_tokens(self) -> int: ...


@dataclass
class Tally:
    """What came of the lines of this run."""

    answered: int = 0
    callers_errors: int = 0
    our_errors: int = 0
    output_tokens: int = 0

    def add(self, outcome: Outcome) -> None:
        self.output_tokens += outcome.output_tokens
        if outcome.error is None:
            self.answered += 1
        elif outcome.error.exit_code == 2:
            self.callers_errors += 1
        else:
            self.our_errors += 1

    @property
    def errors(self) -> int:
        return self.callers_errors + self.our_errors

    @property
    def exit_code(self) -> int:
        """0 when all were answered, 1 when ours is at fault, 2 when the caller's lines alone are."""
        return 1 if self.our_errors else 2 if self.callers_errors else 0


class Progress:
    """Counts outcomes and shows them; errors are said by line of ``source``, the first ten of them."""

    def __init__(self, stream: TextIO, source: str, total: int, before: int) -> None:
        self.tally = Tally()
        self._stream = stream
        self._source = source
        self._total, self._before = total, before
        self._shows = stream.isatty()
        self._began = time.monotonic()
        self._shown_at = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def add(self, outcome: Outcome) -> None:
        self.tally.add(outcome)
        if outcome.error is not None:
            self._say_error(outcome)
        now = time.monotonic()
        if self._shows and now - self._shown_at >= _EVERY_SECONDS:
            self._shown_at = now
            self._stream.write(f"\r{self._bar()}\x1b[K")
            self._stream.flush()

    def close(self) -> None:
        self._clear()

    def _say_error(self, outcome: Outcome) -> None:
        if self.tally.errors <= _MOST_ERRORS_SAID:
            self._clear()
            last = "; further ones stand in the output" if self.tally.errors == _MOST_ERRORS_SAID else ""
            print(f"{self._source}, line {outcome.line.number}: {outcome.error}{last}", file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._shows:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _bar(self) -> str:
        here = self.tally.answered + self.tally.errors
        done = self._before + here
        filled = _WIDTH * done // max(self._total, 1)
        left = self.seconds * (self._total - done) / max(here, 1)
        errors = f", {self.tally.errors} errors" if self.tally.errors else ""
        rate = self.tally.output_tokens / max(self.seconds, 1e-9)
        bar = "#" * filled + "." * (_WIDTH - filled)
        return f"[{bar}] {done}/{self._total}{errors}, {rate:.0f} tokens/s, {left:.0f} s left"
