"""NVIDIA's perf_analyzer and this bench, in turns, with the same load on the same generator.

perf_analyzer polls once a second whether its last request was answered, and counts that wait: up to a second, half a
one as a rule (``InferenceProfiler::Measure``). So a run lasts long beside that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

from python_llm.errors import CallerMistake
from triton_llm_client.bench.isolated import Absent
from triton_llm_client.bench.load import Load
from triton_llm_client.bench.perf_analyzer import FOLDER, PROMPTS, routes
from triton_llm_client.bench.perf_analyzer import measure as measure_route
from triton_llm_client.bench.perf_tool import find_or_fetch
from triton_llm_client.bench.server import own_server
from triton_llm_client.bench.statistics import paired_ratio
from triton_llm_client.bench.subjects import SUBJECTS, Setting
from triton_llm_client.bench.targets import Figure

__all__ = ["measure"]

_IN_FLIGHT, _TOKENS = 8, 32
_SECONDS = 12.0  # of one run, about


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    try:
        tool = find_or_fetch(FOLDER)
    except CallerMistake as error:
        raise Absent(str(error)) from error
    theirs: list[float] = []
    ours: list[float] = []
    with own_server(setting.artifact, setting.model) as server, tempfile.TemporaryDirectory() as folder:
        subject = SUBJECTS["served"].open(replace(setting, url=server.url))
        _, generator, _ = routes(setting.model, server.url, server.http_url)
        try:
            subject.run(_load(_IN_FLIGHT))  # warm
            requests = _enough(subject.run(_load(4 * _IN_FLIGHT)).seconds / 4)
            for _ in range(rounds):
                measured = measure_route(tool, generator, _IN_FLIGHT, requests, _TOKENS, Path(folder))
                theirs.append(measured.requests_per_second)
                ours.append(requests / subject.run(_load(requests)).seconds)
                say(f"perf_analyzer {theirs[-1]:.2f} requests/s, here {ours[-1]:.2f}")
        finally:
            subject.close()
    return Figure("requests/s, perf_analyzer / this bench", paired_ratio(theirs, ours), 0.9, most=1.1)


def _load(requests: int) -> Load:
    return Load(tuple(islice(cycle(PROMPTS), requests)), _IN_FLIGHT, _TOKENS)


def _enough(wave_seconds: float) -> int:
    """Requests that take about _SECONDS, where as many as are in flight take ``wave_seconds``."""
    return _IN_FLIGHT * max(4, round(_SECONDS / wave_seconds))
