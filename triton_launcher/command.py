"""tritonserver's command line and environment."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import python_llm
from python_llm.machine import usable_cpus
from python_llm.settings import ADMIN_KEY_HEADER, CONTROL_SECRET_VARIABLE, GRPC_ADDRESS_VARIABLE
from triton_launcher.discovery import Triton
from triton_launcher.errors import LaunchRefused
from triton_launcher.options import ServeOptions
from triton_launcher.ports import is_loopback
from triton_launcher.processes import MARKER_VARIABLE
from triton_launcher.threads import library_threads, server_threads

__all__ = ["Secrets", "build_command", "build_environment", "our_backend"]

_RESTRICTED = "model-repository,shared-memory,trace,logging"


@dataclass(frozen=True)
class Secrets:
    """Drawn at each start. ``admin_key`` opens Triton's restricted APIs when the host is not loopback."""

    control: str
    admin_key: str

    def __repr__(self) -> str:
        return "Secrets(control='***', admin_key='***')"


def build_command(
    triton: Triton,
    flags: Iterable[str],
    options: ServeOptions,
    models: Sequence[str],
    backend_dir: Path,
    region_prefix: str,
    secrets: Secrets,
) -> tuple[str, ...]:
    """Options that this tritonserver lacks are left out, but for the restrictions: without them it is refused."""
    known = frozenset(flags)
    restrictions = _restrictions(options.host, secrets.admin_key)
    _require_known(restrictions, known, options.host)
    wanted = [
        ("model-repository", str(options.model_repository.absolute())),
        ("backend-directory", str(backend_dir)),
        ("model-control-mode", "explicit"),
        *(("load-model", model) for model in models),
        *_addresses(options),
        ("exit-timeout-secs", str(options.exit_seconds)),
        *_response_cache(triton, options.response_cache_bytes, known),
        *server_threads(usable_cpus(), options.tritonserver_arguments),
        ("backend-config", f"python,shm-region-prefix-name={region_prefix}"),
        *restrictions,
    ]
    arguments = [f"--{name}={value}" for name, value in wanted if name in known]
    return (str(triton.binary), *arguments, *options.tritonserver_arguments)


def build_environment(
    triton: Triton, marker: str, secrets: Secrets, grpc_address: str, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The launcher's environment, with the interpreter, libraries and packages the backend's stub must find."""
    inherited = os.environ if environment is None else environment
    return {
        **inherited,
        **library_threads(inherited),
        **triton.library_environment(inherited),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(_python_path(inherited.get("PYTHONPATH", ""))),
        "PYTHONUNBUFFERED": "1",
        MARKER_VARIABLE: marker,
        CONTROL_SECRET_VARIABLE: secrets.control,
        GRPC_ADDRESS_VARIABLE: grpc_address,
    }


def our_backend() -> Path:
    """The folder of python_llm, wherever it is installed."""
    return Path(python_llm.__file__).parent


def _response_cache(triton: Triton, size: int, known: frozenset[str]) -> list[tuple[str, str]]:
    """Triton's local cache, where an entry asks for one."""
    if not size:
        return []
    if "cache-config" not in known or not (triton.caches / "local").is_dir():
        raise LaunchRefused(
            f"scorer_cache_bytes {size}: this tritonserver has no local response cache (in '{triton.caches}'); put the "
            "knob back with 'triton-llm repo add NAME --set scorer_cache_bytes=', or use another Triton."
        )
    return [("cache-directory", str(triton.caches)), ("cache-config", f"local,size={size}")]


def _addresses(options: ServeOptions) -> list[tuple[str, str]]:
    ports = options.ports
    pairs = []
    for name, port in (("http", ports.http), ("grpc", ports.grpc), ("metrics", ports.metrics)):
        pairs += [(f"{name}-address", options.host), (f"{name}-port", str(port))]
    return pairs


def _restrictions(host: str, key: str) -> list[tuple[str, str]]:
    if is_loopback(host):
        return []
    value = f"{_RESTRICTED}:{ADMIN_KEY_HEADER}={key}"
    return [("http-restricted-api", value), ("grpc-restricted-protocol", value)]


def _require_known(restrictions: Iterable[tuple[str, str]], known: frozenset[str], host: str) -> None:
    for name, _ in restrictions:
        if name not in known:
            raise LaunchRefused(
                f"host {host}: it is not loopback, and this tritonserver lacks --{name}, which guards its "
                "administrative APIs; serve on 127.0.0.1, or use a newer Triton."
            )


def _python_path(inherited: str) -> list[str]:
    """python_llm's parent first: an editable install is invisible to an interpreter that reads no .pth files."""
    site_packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    paths = [str(our_backend().parent), *inherited.split(os.pathsep), *site_packages]
    return list(dict.fromkeys(path for path in paths if path))
