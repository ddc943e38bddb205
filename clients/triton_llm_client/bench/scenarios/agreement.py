"""NVIDIA's perf_analyzer and this bench, in turns, with the same load on the same generator."""

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

_IN_FLIGHT, _REQUESTS, _TOKENS = 8, 48, 32


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    try:
        tool = find_or_fetch(FOLDER)
    except CallerMistake as error:
        raise Absent(str(error)) from error
    theirs: list[float] = []
    ours: list[float] = []
    load = Load(tuple(islice(cycle(PROMPTS), _REQUESTS)), _IN_FLIGHT, _TOKENS)
    with own_server(setting.artifact, setting.model) as server, tempfile.TemporaryDirectory() as folder:
        subject = SUBJECTS["served"].open(replace(setting, url=server.url))
        _, generator, _ = routes(setting.model, server.url, server.http_url)
        try:
            subject.run(load)  # warm
            for _ in range(rounds):
                measured = measure_route(tool, generator, _IN_FLIGHT, _REQUESTS, _TOKENS, Path(folder))
                theirs.append(measured.requests_per_second)
                ours.append(_REQUESTS / subject.run(load).seconds)
                say(f"perf_analyzer {theirs[-1]:.2f} requests/s, here {ours[-1]:.2f}")
        finally:
            subject.close()
    return Figure("requests/s, perf_analyzer / this bench", paired_ratio(theirs, ours), 0.9, most=1.1)
