"""A subject in a process and session of its own.

One in-process engine then shares no threads, memory or GIL with another, and a busy neighbour's processes take the
same share from each: Linux deals CPU time out by session where autogroups are on, and the served engine, which the
launcher starts in a session of its own, would get more than one that shares the terminal's.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from python_llm.errors import CallerMistake, EngineFailure, parse_error
from triton_llm_client.bench.load import Load, Outcome, Subject

__all__ = ["Absent", "IsolatedSubject"]

_STOP_SECONDS = 30.0


class Absent(Exception):
    """A subject cannot take part here; the text says why and how to get it. It is reported, never a loss."""


class IsolatedSubject:
    """Opens ``opener(*arguments)`` in a new process and passes loads and outcomes through a pipe.

    Raises:
        Absent, CallerMistake, ServeError: what the opener raised there.
    """

    def __init__(self, opener: Callable[..., Subject], *arguments: object, run_seconds: float | None = None) -> None:
        """``run_seconds``: a load that takes longer is a failure, and the process ends; None: it may take for ever."""
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, opener, arguments), daemon=True)
        self._process.start()
        other.close()
        self._run_seconds = run_seconds
        try:
            self.name, self.flags = self._receive()
        except BaseException:
            self.close()
            raise

    def run(self, load: Load) -> Outcome:
        self._pipe.send(load)
        if not self._pipe.poll(self._run_seconds):
            self._process.kill()
            raise EngineFailure(
                "subject_silent", f"bench subject: no answer to a load within {self._run_seconds:.0f} s; it was ended."
            )
        outcome: Outcome = self._receive()
        return outcome

    def close(self) -> None:
        with suppress(OSError):
            self._pipe.send(None)
        self._process.join(_STOP_SECONDS)
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _receive(self) -> Any:
        try:
            kind, value = self._pipe.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            raise EngineFailure("subject_died", f"bench subject: its process ended with {code}.") from None
        if kind == "absent":
            raise Absent(value)
        if kind == "mistake":
            raise CallerMistake(value)
        if kind == "failure":
            raise parse_error(value) or EngineFailure("subject_failed", f"bench subject: {value}")
        return value


def _work(pipe: Connection, opener: Callable[..., Subject], arguments: tuple[object, ...]) -> None:
    with suppress(OSError):  # spawned processes lead no group, so this works; it only matters for fairness
        os.setsid()
    with suppress(EOFError, BrokenPipeError):  # the bench is gone
        try:
            subject = opener(*arguments)
        except Exception as error:
            pipe.send(_told(error))
            return
        pipe.send(("ok", (subject.name, subject.flags)))
        while (load := pipe.recv()) is not None:
            try:
                pipe.send(("ok", subject.run(load)))
            except Exception as error:
                pipe.send(_told(error))
        subject.close()


def _told(error: Exception) -> tuple[str, str]:
    if isinstance(error, Absent):
        return "absent", str(error)
    if isinstance(error, CallerMistake):
        return "mistake", str(error)
    return "failure", str(error) or repr(error)
