"""Find a Triton Inference Server: environment variable, PATH, the container's place, else the wheel's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from triton_launcher.errors import LaunchRefused

__all__ = ["BINARY_VARIABLE", "Triton", "find_triton", "python_version", "read_flags"]

BINARY_VARIABLE = "TRITONSERVER"
_CONTAINER = Path("/opt/tritonserver")
_FLAG = re.compile(r"^\s+--([a-z0-9][a-z0-9-]*)", re.MULTILINE)


@dataclass(frozen=True)
class Triton:
    """A tritonserver binary and what it needs.

    ``backends`` holds ``python/``; ``stub`` is the stub of the running Python where it lies elsewhere (the
    wheel); ``libraries`` is what LD_LIBRARY_PATH must begin with.
    """

    binary: Path
    backends: Path
    stub: Path | None = None
    libraries: Path | None = None

    @property
    def caches(self) -> Path:
        """Where its response caches lie; a folder that may not be there."""
        return self.backends.parent / "caches"

    def library_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """LD_LIBRARY_PATH with what this Triton needs in front; empty where it needs nothing."""
        if self.libraries is None:
            return {}
        old = environment.get("LD_LIBRARY_PATH")
        return {"LD_LIBRARY_PATH": f"{self.libraries}:{old}" if old else str(self.libraries)}


def find_triton(
    environment: Mapping[str, str] | None = None,
    *,
    container: Path = _CONTAINER,
    site_packages: Path | None = None,
) -> Triton:
    """The first Triton there is; raises LaunchRefused that says where it was looked for."""
    environment = os.environ if environment is None else environment
    if named := environment.get(BINARY_VARIABLE):
        return _named(Path(named))
    if on_path := shutil.which("tritonserver", path=environment.get("PATH", "")):
        return _native(Path(on_path).resolve())
    if _is_executable(container / "bin/tritonserver"):
        return _native(container / "bin/tritonserver")
    site_packages = site_packages or _site_packages_of_wheel()
    if site_packages is not None and (site_packages / "pytriton/tritonserver/bin/tritonserver").is_file():
        return _wheel(site_packages)
    raise LaunchRefused(
        f"tritonserver: not found in ${BINARY_VARIABLE}, on PATH, in '{container}' or in the wheel nvidia-pytriton; "
        f"install the extra 'serve', or set {BINARY_VARIABLE} to the binary."
    )


def read_flags(triton: Triton) -> frozenset[str]:
    """Names of the options this tritonserver knows, without the dashes."""
    environment = {**os.environ, **triton.library_environment(os.environ)}
    try:
        answer = subprocess.run(
            [triton.binary, "--help"], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchRefused(
            f"tritonserver '{triton.binary}': '--help' failed: {error}; it must be runnable."
        ) from error
    flags = frozenset(_FLAG.findall(answer.stdout + answer.stderr))
    if "model-repository" not in flags:
        raise LaunchRefused(
            f"tritonserver '{triton.binary}': '--help' ended with {answer.returncode} and names no options; its last "
            f"words: {(answer.stderr or answer.stdout).strip()[-300:]!r}."
        )
    return flags


def python_version() -> str:
    """Of the running interpreter, as the wheel names its stubs: 3.11."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _named(binary: Path) -> Triton:
    if not _is_executable(binary):
        raise LaunchRefused(f"{BINARY_VARIABLE} '{binary}': no executable file; set it to a tritonserver binary.")
    binary = binary.resolve()
    if binary.parent.parent.parent.name == "pytriton":
        return _wheel(binary.parents[3])
    return _native(binary)


def _native(binary: Path) -> Triton:
    backends = binary.parent.parent / "backends"
    if not (backends / "python").is_dir():
        raise LaunchRefused(
            f"tritonserver '{binary}': no Python backend in '{backends}'; it must hold 'python/': install Triton's "
            f"Python backend there, or set {BINARY_VARIABLE} to another tritonserver."
        )
    return Triton(binary, backends)


def _wheel(site_packages: Path) -> Triton:
    root = site_packages / "pytriton/tritonserver"
    stub = root / "python_backend_stubs" / python_version() / "triton_python_backend_stub"
    if not stub.is_file():
        have = ", ".join(sorted(path.name for path in (root / "python_backend_stubs").glob("*")))
        raise LaunchRefused(
            f"Python {python_version()}: nvidia-pytriton has no backend stub for it; it has them for Python {have}: "
            "make the environment with one of these."
        )
    return Triton(root / "bin/tritonserver", root / "backends", stub, site_packages / "nvidia_pytriton.libs")


def _site_packages_of_wheel() -> Path | None:
    """Without importing pytriton: its import changes the process."""
    spec = find_spec("pytriton")
    return Path(spec.origin).parents[1] if spec is not None and spec.origin else None


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
