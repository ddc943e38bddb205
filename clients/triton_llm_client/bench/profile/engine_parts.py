"""The engine in this process under Python's own profiler, thread by thread: what a step spends where."""

from __future__ import annotations

import cProfile
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import CodeType, FrameType

from triton_llm_client.bench.load import Load, Outcome
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.subjects.engine import EngineSubject, open_engine

__all__ = ["PARTS", "EngineParts", "ProfiledSubject", "open_profiled"]

# What is told -> (end of the file's name, function) of the engine whose inclusive time it is; none inside another.
PARTS: Mapping[str, tuple[str, str]] = {
    "schedule": ("paged/scheduler.py", "schedule"),
    "build the batch": ("paged/runner.py", "build_batch"),
    "model (infer)": ("runners/openvino.py", "forward"),
    "sample": ("paged/sampler.py", "sample"),
}
_THREADS = ("paged-engine", "echo-engine")
Totals = dict[str, float]


class EngineParts:
    """Seconds that the engine's thread has spent in each of PARTS."""

    def __init__(self) -> None:
        self._profiles: dict[str, cProfile.Profile] = {}

    def watch_new_threads(self) -> None:
        """Threads that start from now on are profiled; ``leave`` ends that."""
        threading.setprofile(self._begin)

    def leave(self) -> None:
        threading.setprofile(None)

    def totals(self) -> Totals:
        found = dict.fromkeys(PARTS, 0.0)
        for thread in _THREADS:
            for entry in self._profiles[thread].getstats() if thread in self._profiles else ():
                if isinstance(entry.code, CodeType) and (part := _part_of(entry.code)) is not None:
                    found[part] += entry.totaltime
        return found

    def _begin(self, frame: FrameType, event: str, argument: object) -> None:
        """The first thing that a new thread does: C code takes over, which costs a tenth of this."""
        sys.setprofile(None)
        profile = self._profiles[threading.current_thread().name] = cProfile.Profile()
        profile.enable()


class ProfiledSubject:
    """The engine subject; ``flags`` is unused. ``parts`` of the last load are asked for by ``name``."""

    name = "profiled engine"
    flags = ""

    def __init__(self, engine: EngineSubject, parts: EngineParts) -> None:
        self._engine, self._parts = engine, parts

    def run(self, load: Load) -> Outcome:
        return self._engine.run(load)

    def profiled(self, load: Load) -> tuple[Outcome, Totals]:
        """The outcome, and the seconds of each part while it ran."""
        before = self._parts.totals()
        outcome = self._engine.run(load)
        after = self._parts.totals()
        return outcome, {name: after[name] - before[name] for name in PARTS}

    def close(self) -> None:
        self._engine.close()


def open_profiled(setting: Setting, opener: Callable[[Setting], EngineSubject] = open_engine) -> ProfiledSubject:
    parts = EngineParts()
    parts.watch_new_threads()
    try:
        return ProfiledSubject(opener(setting), parts)
    finally:
        parts.leave()


def _part_of(code: CodeType) -> str | None:
    file = PurePath(code.co_filename).as_posix()
    return next((part for part, (end, name) in PARTS.items() if code.co_name == name and file.endswith(end)), None)
