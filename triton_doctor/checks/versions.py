"""The Triton that would be started, and each artifact's runtime against the one that is installed."""

from __future__ import annotations

from collections.abc import Iterator

from python_llm.artifact import Artifact, ArtifactError
from triton_doctor.finding import Finding, ok, wrong
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup
from triton_launcher.discovery import find_triton
from triton_launcher.errors import LaunchRefused

__all__ = ["check"]

_AREA = "versions"


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    try:
        yield ok(_AREA, f"tritonserver: {find_triton().binary}")
    except LaunchRefused as error:
        yield wrong(_AREA, f"tritonserver: {error}", "make setup")
    for entry in setup.entries():
        if not entry.present:
            continue
        try:
            artifact = Artifact.open(entry.artifact)
        except ArtifactError:
            continue  # a check of its own
        try:
            artifact.check_runtime()
        except ArtifactError as error:
            yield wrong(_AREA, f"model '{entry.name}': {error}", f"make build-engine NAME={entry.name} FORCE=1")
        else:
            built = ", ".join(f"{package} {version}" for package, version in artifact.manifest.builder.items())
            yield ok(_AREA, f"model '{entry.name}': {artifact.kind}{f', built by {built}' if built else ''}")
