"""Looks at one running tritonserver: its process, its stubs, its models, its generators' pulses."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping

from triton_launcher import processes
from triton_launcher.launch import Running
from triton_launcher.options import ServeOptions
from triton_launcher.probe import Probes
from triton_launcher.progress import GENERATOR_SUFFIX
from triton_launcher.triton_api import ModelState

__all__ = ["Watch"]

_SUSPENDED_SECONDS = 2.0  # looks follow each other ten times as fast


class Watch:
    """`look` says whether the server is dead; ``models`` is what it serves, as far as Triton last said.

    ``wanted`` holds the names to load again after a restart: what was asked for at the start, what was loaded
    since, and not what was unloaded since.
    """

    def __init__(self, running: Running, options: ServeOptions, wanted: set[str]) -> None:
        self.wanted = wanted
        self.models: Mapping[str, ModelState] = {}
        self.probes = Probes(running.control, options)
        self._running = running
        self._options = options
        self._stubs: dict[int, processes.Stub] = {}
        self._unloading_since: dict[str, float] = {}
        self._answered_at = self._asked_at = self._looked_at = time.monotonic()
        self._refresh(self._answered_at)

    def look(self) -> str | None:
        """The cause of death, or None."""
        self._excuse_suspension(time.monotonic() - self._looked_at)
        cause = self._cause_of_death(time.monotonic())
        self._looked_at = time.monotonic()
        return cause

    def _cause_of_death(self, now: float) -> str | None:
        if not self._running.server.alive():
            return "tritonserver is gone"
        gone = [pid for pid in self._stubs if not processes.is_alive(pid)]
        if gone or now - self._asked_at >= self._options.status_seconds:
            self._refresh(now)
        return self._dead_stub(gone) or self._silent_server(now) or self._dead_generator()

    def _excuse_suspension(self, away: float) -> None:
        """A launcher that was stopped and continued must not take its own absence for the server's silence."""
        if away > _SUSPENDED_SECONDS:
            self._answered_at += away
            self.probes.excuse(away)

    def reasons(self) -> tuple[str, ...]:
        """Why requests cannot all be served; empty when they can."""
        states = {name: self.models.get(name) for name in sorted(self.wanted)}
        refusals = self.probes.refusals().items()
        return (
            *(f"model '{name}' is {state}" for name, state in states.items() if not (state and state.ready)),
            *(f"'{model}' refuses requests: {why}" for model, why in refusals),
        )

    def states(self) -> Mapping[str, str]:
        """Each model's state; an unload that hangs (Triton lost count of its requests) says for how long."""
        states = {name: str(state) for name, state in self.models.items()}
        for name, since in self._unloading_since.items():
            lasted = time.monotonic() - since
            if lasted > self._options.stall_seconds:
                states[name] += f" for {lasted:.0f} s: stuck; restart the server to free it"
        return states

    def generators(self) -> tuple[str, ...]:
        """Generators that are ready, by Triton's last word."""
        return tuple(name for name, state in self.models.items() if name.endswith(GENERATOR_SUFFIX) and state.ready)

    def stop(self) -> None:
        self.probes.stop()

    def _refresh(self, now: float) -> None:
        self._asked_at = now
        try:
            self.models = self._running.api.models()
        except (OSError, http.client.HTTPException):
            return
        self._answered_at = now
        self.wanted |= {name for name, state in self.models.items() if state.ready}
        self.wanted = {name for name in self.wanted if self._stays(name)}
        unloading = [name for name, state in self.models.items() if state.unloading]
        self._unloading_since = {name: self._unloading_since.get(name, now) for name in unloading}
        self.probes.follow(self.generators())
        self._stubs |= self._running.server.stubs()

    def _stays(self, name: str) -> bool:
        """Not so a model that was unloaded; once its folder is gone as well, Triton does not name it any more."""
        state = self.models.get(name)
        return state is not None and not state.unloading and not state.unloaded

    def _dead_stub(self, gone: list[int]) -> str | None:
        """A stub may go with its model, or make way for the same instance of a reloaded one; else it died."""
        for pid in gone:
            stub = self._stubs.pop(pid)
            state = self.models.get(stub.model)
            if stub not in self._stubs.values() and state is not None and _has_version(state, stub.version):
                return f"the backend process of '{stub.model}' is gone"
        return None

    def _silent_server(self, now: float) -> str | None:
        silent = now - self._answered_at
        return f"Triton does not answer for {silent:.0f} s" if silent > self._options.control_seconds else None

    def _dead_generator(self) -> str | None:
        for model, cause in self.probes.deaths().items():
            return f"'{model}' is stuck: {cause}"
        return None


def _has_version(state: ModelState, version: str) -> bool:
    """Whether that very version is ready; of several, one may go while another stays."""
    return state.ready and (not state.versions or not version or version in state.versions)
