"""NVIDIA's perf_analyzer without root and without a container: packages fetched and unpacked into one folder.

The binary lies in a wheel of tritonclient, newer ones need a newer glibc; the wheel's own Python parts are not used.
The versions are those of the extra ``perf-analyzer`` in pyproject.toml.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path

from python_llm.errors import CallerMistake

__all__ = ["PerfTool", "find_or_fetch"]

_EXTRA = "perf-analyzer"
_LIBRARY, _DEBIAN_PACKAGE = "libb64.so.0d", "libb64-0d"  # the one library that no wheel has


@dataclass(frozen=True)
class PerfTool:
    """An unpacked perf_analyzer, ready to run."""

    folder: Path

    @property
    def binary(self) -> Path:
        return self.folder / "bin" / "perf_analyzer"

    def run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run it to its end; stdout and stderr come as one text."""
        paths = [
            *sorted({str(file.parent) for file in self.folder.rglob("lib*.so*")}),
            os.environ.get("LD_LIBRARY_PATH"),
        ]
        environment = os.environ | {"LD_LIBRARY_PATH": ":".join(filter(None, paths))}
        command = [str(self.binary), *arguments]
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def find_or_fetch(folder: Path) -> PerfTool:
    """The tool of this project's versions under ``folder``, fetched there when it is not.

    Raises:
        CallerMistake: it cannot be fetched, or does not run here; says what to do.
    """
    wheels = requirements()
    tool = PerfTool(folder.resolve() / wheels[0])
    if tool.folder.is_dir():
        return tool
    tool.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=tool.folder.parent) as scratch:
        fetched = PerfTool(Path(scratch) / "tool")
        _fetch_wheels(wheels, fetched.folder)
        said = fetched.run(["--version"])
        if _LIBRARY in said.stdout:  # the loader's complaint
            _fetch_library(Path(scratch), fetched.folder)
            said = fetched.run(["--version"])
        if said.returncode:
            raise CallerMistake(
                f"perf_analyzer of {wheels[0]}: it does not run here: {_last_line(said.stdout)}; it needs Linux on "
                "x86_64 with glibc 2.34, libssl.so.3 and libz.so.1."
            )
        fetched.folder.rename(tool.folder)  # whole, or not there
    return tool


def requirements() -> list[str]:
    """The wheels of the extra, as pip takes them; the first holds the binary."""
    rows = [row.partition(";") for row in requires("triton-llm") or ()]
    found = [requirement.strip() for requirement, _, marker in rows if _EXTRA in marker]
    if not found:
        raise CallerMistake(f"extra '{_EXTRA}': the installed triton-llm does not know it; run 'make setup'.")
    return found


def _fetch_wheels(wheels: Sequence[str], target: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--target", str(target)]
    _run([sys.executable, "-m", "pip", "install", *options, *wheels], target.parent, f"packages {' '.join(wheels)}")


def _fetch_library(scratch: Path, target: Path) -> None:
    what = f"library {_LIBRARY}"
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise CallerMistake(
            f"{what}: it is not installed and there is no apt-get to fetch it with; install it (Debian, Ubuntu: "
            f"'{_DEBIAN_PACKAGE}') and run this again."
        )
    _run(["apt-get", "download", _DEBIAN_PACKAGE], scratch, f"{what}, package '{_DEBIAN_PACKAGE}'")
    for package in scratch.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(package), str(target / "debian")], scratch, what)


def _run(command: Sequence[str], folder: Path, what: str) -> None:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise CallerMistake(
            f"{what}: '{' '.join(command[:4])} …' failed: {_last_line(done.stdout)}; perf_analyzer needs them once: "
            "run this where packages can be fetched (apt's lists must be there: 'apt-get update')."
        )


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
