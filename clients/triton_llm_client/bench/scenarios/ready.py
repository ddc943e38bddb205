"""How long ``make serve`` takes when everything is built: the check of the build, the entry, and the server's start."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from python_llm.errors import EngineFailure
from triton_llm_client.aio import DEFAULT_MODEL
from triton_llm_client.bench.server import own_server
from triton_llm_client.bench.statistics import median_interval
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.targets import Figure

__all__ = ["measure"]

_MOST_ROUNDS = 3  # each starts a server
_DEFAULT_ARTIFACT = Path("engines") / DEFAULT_MODEL


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    """The check of the build is measured where the artifact is the default one."""
    found = []
    for _ in range(min(rounds, _MOST_ROUNDS)):
        checked = _check_build() if setting.artifact == _DEFAULT_ARTIFACT else 0.0
        started = time.perf_counter()
        with own_server(setting.artifact, setting.model, gateway=True):
            found.append(checked + time.perf_counter() - started)
        say(f"ready in {found[-1]:.1f} s, of which {checked:.1f} s looked whether the build is there")
    return Figure("make serve, engine built: ready", median_interval(found), 20.0, at_most=True, unit="s")


def _check_build() -> float:
    started = time.perf_counter()
    command = [sys.executable, "-m", "triton_llm.cli", "build", DEFAULT_MODEL, "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineFailure("no_build", f"bench: '{' '.join(command[2:])}' failed: {done.stderr.strip()[-400:]}")
    return time.perf_counter() - started
