"""What the launcher makes of models that come and go, by Triton's word and the process table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

import pytest

from python_llm.control_access import ControlAccess
from triton_launcher.control import Control
from triton_launcher.launch import Running
from triton_launcher.options import ServeOptions
from triton_launcher.processes import Stub
from triton_launcher.server import TritonServer
from triton_launcher.triton_api import ModelState, TritonApi
from triton_launcher.watch import Watch

READY = ModelState("READY")
UNLOADED = ModelState("UNAVAILABLE", "unloaded")
NOWHERE = ControlAccess("http://127.0.0.1:1", "")
OPTIONS = replace(ServeOptions(), status_seconds=1e-9)  # every look asks Triton


class Triton:
    """A tritonserver and its API in one: what it says and which stubs it has."""

    def __init__(self) -> None:
        self.states: dict[str, ModelState] = {}
        self.processes: dict[int, Stub] = {}

    def alive(self) -> bool:
        return True

    def stubs(self) -> Mapping[int, Stub]:
        return dict(self.processes)

    def models(self) -> Mapping[str, ModelState]:
        return dict(self.states)


@pytest.fixture
def triton() -> Triton:
    return Triton()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process to take for a stub."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def watch(triton: Triton, *wanted: str) -> Watch:
    running = Running(cast(TritonServer, triton), cast(TritonApi, triton), Control("127.0.0.1:1", ""), NOWHERE)
    return Watch(running, OPTIONS, set(wanted))


def test_what_is_loaded_is_wanted_and_what_is_unloaded_is_not(triton: Triton) -> None:
    triton.states = {"a": READY}
    looking = watch(triton, "a")
    triton.states["b"] = READY
    assert looking.look() is None
    assert looking.wanted == {"a", "b"}
    triton.states["b"] = UNLOADED
    assert looking.look() is None
    assert looking.wanted == {"a"}


def test_a_model_unloaded_and_removed_between_two_looks_is_not_wanted_any_more(triton: Triton) -> None:
    triton.states = {"a": READY, "b": READY}
    looking = watch(triton, "a", "b")
    del triton.states["b"]  # Triton lists what is loaded and what has a folder
    assert looking.look() is None
    assert (looking.wanted, looking.reasons()) == ({"a"}, ())


@pytest.mark.parametrize(
    ("state", "cause"),
    [(READY, "the backend process of 'b' is gone"), (UNLOADED, None), (ModelState("UNLOADING"), None), (None, None)],
)
def test_a_backend_process_may_go_with_its_model(
    triton: Triton, child: subprocess.Popen[bytes], state: ModelState | None, cause: str | None
) -> None:
    triton.states = {"a": READY, "b": READY}
    triton.processes = {child.pid: Stub("b", "b_0_0")}
    looking = watch(triton, "a", "b")
    child.kill()
    child.wait()
    triton.processes = {}
    if state is None:
        del triton.states["b"]
    else:
        triton.states["b"] = state
    assert looking.look() == cause
