"""Start, watch, restart, drain: the life of a served model repository."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from triton_launcher.backend_dir import assemble
from triton_launcher.backoff import Backoff
from triton_launcher.command import our_backend
from triton_launcher.discovery import find_triton, read_flags
from triton_launcher.drain import Drain
from triton_launcher.errors import LaunchRefused, StartFailure
from triton_launcher.gateway import GatewayProcess, check_gateway
from triton_launcher.health import Health, HealthServer
from triton_launcher.launch import Launch, Running, draw_admin_key
from triton_launcher.options import ServeOptions, check_passed_on
from triton_launcher.ports import check_ports, is_loopback
from triton_launcher.progress import say, welcome
from triton_launcher.repository import check_entries, response_cache_bytes, select_entries
from triton_launcher.run_folder import RunFolder
from triton_launcher.stop import Stop
from triton_launcher.watch import Watch

__all__ = ["Supervisor", "serve"]

_LOOK_SECONDS = 0.2


def serve(options: ServeOptions) -> int:
    """Serve until a signal asks for the end; returns the exit code.

    Raises:
        CallerMistake: a port, the repository, an artifact or a folder cannot work; nothing was started.
        StartFailure: tritonserver did not become ready.
    """
    check_ports(options.host, options.ports, options.gateway_port)
    check_gateway(options)
    entries = select_entries(options.model_repository, options.models)
    check_entries(entries)
    options = replace(options, response_cache_bytes=response_cache_bytes(entries))
    triton = find_triton()
    flags = read_flags(triton)
    check_passed_on(options.tritonserver_arguments, flags)
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(options.run_dir))
        if folder.swept:
            say("swept what a launcher that was killed had left behind.")
        _open_log(options.log_path)
        backend_dir = assemble(triton, folder.path / "backends", [our_backend(), *options.backends])
        health = Health()
        stack.callback(HealthServer(options.host, options.ports.health, health).close)
        launch = Launch(triton, flags, options, backend_dir, folder.marker, _admin_key(options, folder.path))
        gateway = None
        if options.gateway_port:
            gateway = GatewayProcess(options, launch.admin_key)
            stack.callback(gateway.end)
        return Supervisor(launch, folder, health, gateway=gateway).run({entry.name for entry in entries})


class Supervisor:
    """One launcher's main loop; the main thread alone runs it."""

    def __init__(
        self,
        launch: Launch,
        folder: RunFolder,
        health: Health,
        stop: Stop | None = None,
        gateway: GatewayProcess | None = None,
    ) -> None:
        self._launch = launch
        self._options = launch.options
        self._folder = folder
        self._health = health
        self._stop = stop or Stop()
        self._gateway = gateway
        self._greeted = False
        self._backoff = Backoff()
        self._restarts = 0

    def run(self, models: set[str]) -> int:
        """Serve ``models`` until a stop; 0 when every running request finished, else 1."""
        with self._stop.on_signals():
            running = self._start(models)
            while running is not None:
                watch = Watch(running, self._options, models)
                cause = self._watch(watch)
                models = watch.wanted
                if cause is None:
                    return self._drain(running, watch)
                running = self._restart(running, models, cause)
        return 0  # stopped while nothing ran

    def _start(self, models: set[str]) -> Running | None:
        """None when a stop was asked for before it was ready."""
        running = self._launch.start(models)
        self._folder.write_state(tritonserver=running.server.pid)
        running.access.write(self._folder.path)
        say(f"tritonserver {running.server.pid} starts; log: {self._options.log_path}")
        ready = False
        try:
            ready = self._launch.await_ready(running, models, self._stop.requested)
        finally:
            if not ready:
                running.end()
        return running if ready else None

    def _look_after_the_gateway(self, models: set[str]) -> None:
        """Keep it running; say where everything is once it is ready as well."""
        if self._gateway is not None:
            self._gateway.look()
        if not self._greeted and (self._gateway is None or self._gateway.may_be_told()):
            self._greeted = True
            say(welcome(self._options, sorted(models)))

    def _watch(self, watch: Watch) -> str | None:
        """Until it dies (returns why) or a stop is asked for (None)."""
        try:
            while not self._stop.requested.is_set:
                cause = watch.look()
                if cause is not None:
                    return cause
                self._look_after_the_gateway(watch.wanted)
                self._health.update(phase="ready", reasons=watch.reasons(), models=watch.states())
                self._stop.requested.wait(_LOOK_SECONDS)
            return None
        finally:
            watch.stop()

    def _restart(self, running: Running, models: set[str], cause: str) -> Running | None:
        """Try until it is ready again; None when a stop was asked for first."""
        self._report_death(cause)
        running.end()
        while not self._stop.requested.wait(self._backoff.next_delay(time.monotonic())):
            self._restarts += 1
            try:
                again = self._start(models)
            except StartFailure as error:
                self._report_death(str(error))
                continue
            say("ready again." if again is not None else "stopped while it was starting again.")
            return again
        return None

    def _report_death(self, cause: str) -> None:
        say(f"restarting tritonserver: {cause}")
        self._health.update(
            phase="restarting", reasons=(cause.splitlines()[0],), models={}, restarts=self._restarts + 1
        )

    def _drain(self, running: Running, watch: Watch) -> int:
        self._health.update(phase="draining", reasons=("the server drains and will stop",))
        say("draining: new requests are refused, running ones finish; a second signal hastens.")
        drain = Drain(running, self._options, self._stop.hastened)
        if self._gateway is not None:
            self._gateway.drain(self._stop.hastened)
        cut = drain.run(watch.generators())
        self._health.update(phase="stopped", reasons=("stopped",), models={})
        say("stopped; every request finished." if cut is None else f"stopped; {cut}.")
        return 0 if cut is None else 1


def _open_log(path: Path) -> None:
    """A new log for each launcher; its restarts of tritonserver append."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    except OSError as error:
        raise LaunchRefused(
            f"log file '{path}': {error.strerror}; it must be writable: choose another with --log-file."
        ) from error


def _admin_key(options: ServeOptions, run_dir: Path) -> str:
    """Empty when only this machine can reach the server; else drawn, and kept where its owner alone can read it."""
    if is_loopback(options.host):
        return ""
    key, file = draw_admin_key(), run_dir / "admin.key"
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(key + "\n", "utf-8")
    say(f"host {options.host} is not loopback: Triton's model, shared memory, trace and logging APIs want {file}.")
    return key
