"""Before a model is unloaded its engine retires: it ends what runs and frees its memory, whatever Triton counts.

Triton 2.50 keeps a model whose requests it lost count of, and with it the backend's process, for ever; and a model that
is being unloaded cannot be reached any more. So the generator is told before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from build_engines.errors import LiveFailure
from build_engines.live_server import LiveServer
from python_llm.contract import generator_model
from python_llm.control_access import ControlAccess
from python_llm.records import RecordError

__all__ = ["CUT_SECONDS", "retire", "retire_after_unload"]

CUT_SECONDS = 5.0  # in which requests that were cut after their grace are gone from Triton too


def retire(server: LiveServer, models: Iterable[str], run_dir: Path, grace_seconds: float) -> str:
    """Tell the ready generators among ``models`` that their engines retire; what runs has ``grace_seconds``.

    They refuse new requests when this returns, and retire by themselves. Returns why one was not told, else nothing:
    unloading without it is right as well, but where Triton lost count the memory stays taken.
    """
    states = server.states()
    generators = [model for model in models if _is_generator(model) and states.get(model) == "READY"]
    if not generators:
        return ""
    access, why = _access(run_dir, server.url)
    if access is None:
        return why
    try:
        for model in generators:
            server.retire(model, access.secret, grace_seconds)
    except LiveFailure as error:
        return str(error)
    return ""


def retire_after_unload(server: LiveServer, name: str, version: int, run_dir: Path, grace_seconds: float) -> str:
    """As `retire`, for one version of the served model ``name``: it refuses nothing until Triton has it no more."""
    model = generator_model(name)
    if server.version_states().get((model, str(version))) != "READY":
        return ""
    access, why = _access(run_dir, server.url)
    if access is None:
        return why
    try:
        server.retire(model, access.secret, grace_seconds, after_unload=version)
    except LiveFailure as error:
        return str(error)
    return ""


def _is_generator(model: str) -> bool:
    return model.endswith(generator_model(""))


def _access(run_dir: Path, url: str) -> tuple[ControlAccess | None, str]:
    remedy = "name the run folder of its launcher with --run-dir."
    try:
        access = ControlAccess.read(run_dir)
    except (OSError, ValueError, RecordError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return None, f"run folder '{run_dir}': no way to the server's engines is there ({why}); {remedy}"
    if not access.opens(url):
        return None, f"run folder '{run_dir}': it is that of {access.http}, not of {url}; {remedy}"
    return access, ""
