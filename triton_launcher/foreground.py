"""A command run to its end as a container's foreground: signals reach it, its lines reach stdout.

Where this is process 1, children that lost their parents are reaped too.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, cast

from triton_launcher.log_lines import FollowedFile, Format, render

__all__ = ["run_in_foreground"]

_LOOK_SECONDS = 0.2
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run_in_foreground(command: Sequence[str], form: Format, log: Path | None = None) -> int:
    """Run ``command``; returns its exit code, 128 + the signal where one ended it.

    Its output, and what is written to ``log`` meanwhile, goes to stdout line by line. For the main thread alone.
    """
    followed = FollowedFile(log) if log is not None else None
    with _stopped() as stopped:
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with started as process:
            stopped(process.send_signal)
            _pump(process, cast(IO[bytes], process.stdout), followed, form)
            code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _stopped() -> Iterator[Callable[[Callable[[int], None]], None]]:
    """Signals from the block's beginning on go to whoever it is told of; those that came earlier too."""
    receivers: list[Callable[[int], None]] = []
    early: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        (receivers[0] if receivers else early.append)(number)

    def tell(receiver: Callable[[int], None]) -> None:
        receivers.append(receiver)
        for number in early:
            receiver(number)

    old = {number: signal.signal(number, handle) for number in _FORWARDED}
    try:
        yield tell
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _pump(process: subprocess.Popen[bytes], output: IO[bytes], followed: FollowedFile | None, form: Format) -> None:
    """Until its output ends, which a grandchild may hold open, or it has ended."""
    os.set_blocking(output.fileno(), False)
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while True:
            ended = process.poll() is not None
            found = output.read() if ended or selector.select(_LOOK_SECONDS) else None
            *lines, rest = (rest + (found or b"")).split(b"\n")
            _print((line.decode("utf-8", "replace") for line in lines), "launcher", form)
            if followed is not None:
                _print(followed.new_lines(), "tritonserver", form)
            _reap(process.pid)
            if ended or found == b"":
                break
    if rest:
        _print(iter([rest.decode("utf-8", "replace")]), "launcher", form)
    if followed is not None:
        process.wait()
        _print(followed.rest(), "tritonserver", form)


def _print(lines: Iterator[str], source: str, form: Format) -> None:
    for line in lines:
        print(render(line, source, form), flush=True)


def _reap(child: int) -> None:
    """As process 1: collect every ended process but the child itself."""
    while os.getpid() == 1:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid == child:
            return
        os.waitpid(ended.si_pid, 0)
