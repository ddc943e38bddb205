"""Everything `serve` can be told, with its defaults."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from triton_launcher.errors import LaunchRefused
from triton_launcher.ports import Ports

__all__ = ["ServeOptions", "check_passed_on"]

# Options of tritonserver that the launcher sets itself, and what to use instead.
_OURS = {
    "model-repository": "--model-repository",
    "model-store": "--model-repository",
    "model-control-mode": None,
    "load-model": "--model",
    "backend-directory": "--backend",
    "http-address": "--host",
    "grpc-address": "--host",
    "metrics-address": "--host",
    "http-port": "--http-port",
    "grpc-port": "--grpc-port",
    "metrics-port": "--metrics-port",
    "exit-timeout-secs": None,
    "log-file": "--log-file",
}


@dataclass(frozen=True)
class ServeOptions:
    """Seconds where a name says so. Empty ``models``: every complete entry of the repository."""

    model_repository: Path = Path("model_repository")
    models: tuple[str, ...] = ()
    host: str = "127.0.0.1"  # an IPv4 address
    ports: Ports = field(default_factory=Ports)
    gateway_port: int = 0  # of the gateway beside Triton; 0: none is started
    run_dir: Path = Path("run")
    log_file: Path | None = None  # tritonserver's output; None: tritonserver.log in the run folder
    backends: tuple[Path, ...] = ()  # further Python-based backend folders
    start_seconds: float = 600.0  # for all models to load
    drain_seconds: float = 30.0  # for running requests to finish after SIGTERM
    stall_seconds: float = 30.0  # no step with work waiting: the engine is stuck
    control_seconds: float = 20.0  # no answer to a control request: the backend is stuck
    status_seconds: float = 1.0  # between two status requests
    probe_seconds: float = 10.0  # between two real tokens asked of an idle engine
    response_cache_bytes: int = 0  # of Triton's local response cache: what the entries ask for; 0: none
    exit_seconds: int = 5  # given to tritonserver after the drain
    tritonserver_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("start", "stall", "control", "status", "probe"):
            _require(getattr(self, f"{name}_seconds") > 0, name, getattr(self, f"{name}_seconds"), "above 0")
        for name in ("drain", "exit"):
            _require(getattr(self, f"{name}_seconds") >= 0, name, getattr(self, f"{name}_seconds"), "0 or more")
        for argument in self.tritonserver_arguments:
            _refuse_ours(argument)

    @property
    def log_path(self) -> Path:
        return (self.log_file or self.run_dir / "tritonserver.log").absolute()


def check_passed_on(arguments: Iterable[str], flags: Collection[str]) -> None:
    """Refuse options that this tritonserver does not know: it would answer with three screens of help."""
    for argument in arguments:
        name = argument[2:].partition("=")[0]
        if argument.startswith("--") and name not in flags:
            close = difflib.get_close_matches(name, flags, n=1)
            hint = f"did you mean --{close[0]}" if close else "see 'tritonserver --help'"
            raise LaunchRefused(f"tritonserver option '{argument}': this tritonserver has none of that name; {hint}.")


def _require(holds: bool, name: str, value: float, rule: str) -> None:
    if not holds:
        raise LaunchRefused(f"--{name}-seconds {value:g}: it must be {rule}.")


def _refuse_ours(argument: str) -> None:
    name = argument.lstrip("-").partition("=")[0]
    if argument.startswith("--") and name in _OURS:
        instead = _OURS[name]
        remedy = f"use the launcher's {instead}, before '--'" if instead else "leave it out"
        raise LaunchRefused(f"tritonserver option '{argument}': the launcher sets it itself; {remedy}.")
