"""The repository's entries and the artifacts that they name: whole, and as they were written."""

from __future__ import annotations

from collections.abc import Iterator

from build_engines.errors import StorageError
from build_engines.repository import Entry, list_entries
from build_engines.served_versions import ServedVersions
from python_llm.artifact import Artifact
from python_llm.errors import CallerMistake
from triton_doctor.finding import Finding, advice, ok, wrong
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup

__all__ = ["check"]

_AREA = "artifacts"


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    if not setup.repository.is_dir():
        yield wrong(
            _AREA,
            f"repository '{setup.repository}': no such folder",
            "make serve   # builds and writes the default model",
        )
        return
    try:
        entries = list_entries(setup.repository)
    except CallerMistake as error:
        yield wrong(_AREA, str(error), "correct that file, or write the entry again: triton-llm repo add NAME")
        return
    if not entries:
        yield wrong(_AREA, f"repository '{setup.repository}': no entry of ours", "triton-llm repo add NAME")
    for entry in entries:
        yield from _entry(entry, setup)


def _entry(entry: Entry, setup: Setup) -> Iterator[Finding]:
    if not entry.present:
        yield advice(
            _AREA,
            f"model '{entry.name}': its artifact '{entry.artifact}' is not there; the server leaves it out",
            f"make build-engine NAME={entry.name}   # or: triton-llm repo remove {entry.name}",
        )
        return
    problems = [*_artifact(entry), *_files(entry, setup)]
    yield from problems or [ok(_AREA, f"model '{entry.name}': '{entry.artifact}' is whole, and so are its entries")]


def _artifact(entry: Entry) -> Iterator[Finding]:
    try:
        Artifact.open(entry.artifact)
    except CallerMistake as error:
        yield wrong(_AREA, f"model '{entry.name}': {error}", f"make build-engine NAME={entry.name} FORCE=1")


def _files(entry: Entry, setup: Setup) -> Iterator[Finding]:
    if entry.models == (entry.name,):
        return  # a scorer: one file, which its reading has held to its rules
    try:
        ServedVersions.read(entry.name, setup.repository).check_unedited()
    except StorageError as error:
        yield wrong(_AREA, f"model '{entry.name}': {error}", f"triton-llm repo add {entry.name}")
    except CallerMistake:
        return  # the artifact, which is said already
