"""Two threads per generator: one asks for its status, one for a real token where the steps stand still."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from python_llm.errors import ServeError
from triton_launcher.control import Control, NoAnswer
from triton_launcher.options import ServeOptions
from triton_launcher.pulse import Pulse, PulseLimits

__all__ = ["Probe", "Probes"]


class Probe:
    """Watches one generator until `stop`."""

    def __init__(self, model: str, control: Control, options: ServeOptions) -> None:
        self.model = model
        self.pulse = Pulse(PulseLimits(options.stall_seconds, options.control_seconds), time.monotonic())
        self._control = control
        self._options = options
        self._stop = threading.Event()
        for loop in (self._ask_status, self._ask_token):
            threading.Thread(target=self._until_stopped, args=(loop,), name=f"probe {model}", daemon=True).start()

    def stop(self) -> None:
        """Returns at once; calls that still wait end with the control channel."""
        self._stop.set()

    def _until_stopped(self, ask: Callable[[], float]) -> None:
        while not self._stop.wait(ask()):
            pass

    def _ask_status(self) -> float:
        """Returns the seconds until the next question."""
        try:
            status = self._control.status(self.model, self._options.control_seconds)
        except (NoAnswer, ServeError) as error:
            self.pulse.status_failed(error)
        else:
            self.pulse.status_answered(status, time.monotonic())
        return self._options.status_seconds

    def _ask_token(self) -> float:
        """An engine that is seen to step needs no probe."""
        if self.pulse.stepping:
            return self._options.probe_seconds
        self.pulse.probe_sent()
        try:
            self._control.probe(self.model, self._options.stall_seconds + self._options.control_seconds)
        except NoAnswer:
            self.pulse.probe_lost()
        except ServeError as error:
            self.pulse.probe_answered(error, time.monotonic())
        else:
            self.pulse.probe_answered(None, time.monotonic())
        return self._options.probe_seconds


class Probes:
    """The probes of one tritonserver's generators, which come and go as models are loaded and unloaded."""

    def __init__(self, control: Control, options: ServeOptions) -> None:
        self._control = control
        self._options = options
        self._running: dict[str, Probe] = {}

    def follow(self, generators: Iterable[str]) -> None:
        """Watch exactly these from now on."""
        wanted = set(generators)
        for model in self._running.keys() - wanted:
            self._running.pop(model).stop()
        for model in wanted - self._running.keys():
            self._running[model] = Probe(model, self._control, self._options)

    def deaths(self) -> Mapping[str, str]:
        """Generators that are dead or stuck, and why."""
        now = time.monotonic()
        found = {model: probe.pulse.cause_of_death(now) for model, probe in self._running.items()}
        return {model: cause for model, cause in found.items() if cause is not None}

    def refusals(self) -> Mapping[str, str]:
        """Generators that live and take no new requests, and why."""
        found = {model: probe.pulse.refuses for model, probe in self._running.items()}
        return {model: why for model, why in found.items() if why}

    def excuse(self, seconds: float) -> None:
        """See `Pulse.excuse`."""
        for probe in self._running.values():
            probe.pulse.excuse(seconds)

    def stop(self) -> None:
        self.follow(())
