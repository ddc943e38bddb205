"""The server that runs, by its launcher's word: is it ready, is a backend stuck, are there metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from triton_doctor.finding import Finding, advice, ok, unknown, wrong
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup

__all__ = ["check"]

_AREA = "server"


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    if not setup.running(machine):
        yield ok(_AREA, f"no launcher runs on '{setup.run_dir}'")
        return
    url = f"{setup.url('health')}/ready"
    answer = machine.get(url)
    try:
        told: Mapping[str, Any] = json.loads(answer.text)
        told["phase"], told["reasons"]
    except (ValueError, LookupError, TypeError):
        yield wrong(
            _AREA,
            f"a launcher runs on '{setup.run_dir}', and {url} does not answer as its health port: {answer.text[:200]}",
            "name its ports: HEALTH_PORT and METRICS_PORT, or --health-port and --metrics-port",
        )
        return
    yield from _ready(told, setup)
    yield from _metrics(machine, setup)


def _ready(told: Mapping[str, Any], setup: Setup) -> Iterator[Finding]:
    log = setup.run_dir / "tritonserver.log"
    if told["reasons"]:
        for reason in told["reasons"]:
            yield wrong(_AREA, f"phase {told['phase']}: {reason}", _remedy(str(reason), log.as_posix()))
    else:
        yield ok(_AREA, f"phase {told['phase']}: every model can answer")
    if told.get("restarts"):
        yield advice(
            _AREA,
            f"the launcher has restarted tritonserver {told['restarts']} times",
            f"grep -n 'restarting' the launcher's output; tail -50 {log}",
        )
    for model, state in told.get("models", {}).items():
        if "stuck" in str(state):
            yield wrong(
                _AREA, f"model '{model}' is {state}", "restart the server when it suits: its memory is free already"
            )


def _remedy(reason: str, log: str) -> str:
    if "stuck" in reason or "no control answer" in reason or "is gone" in reason:
        return f"nothing: the launcher restarts it; tail -50 {log} says what it did before"
    if "memory" in reason:
        return "triton-llm doctor --symptom oom"
    return f"tail -50 {log}"


def _metrics(machine: Machine, setup: Setup) -> Iterator[Finding]:
    url = f"{setup.url('metrics')}/metrics"
    answer = machine.get(url)
    if answer.status != 200:
        yield wrong(
            _AREA,
            f"metrics: {url} does not answer ({answer.text[:200] or answer.status}): nobody is alarmed of anything",
            "name its port with METRICS_PORT or --metrics-port; if that is right, restart the server",
        )
    elif "triton_llm_requests_running" not in answer.text:
        yield unknown(_AREA, f"metrics: {url} has none of a generator: its metrics_seconds may be 0, or none is loaded")
    else:
        yield ok(_AREA, f"metrics: {url} answers")
