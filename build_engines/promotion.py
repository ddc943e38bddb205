"""One version of a served model after another, while requests come.

In a running Triton the new version is loaded beside the old one; it is ready once its engine has run, and is asked by
name for a token before anything leads to it. Then the ensemble takes the new steps in one step, and the old version
goes: nothing new comes to it, what runs ends, and its engine frees its memory whatever Triton counts. A request that
names no version goes to the highest one that is ready, which is Triton's rule: so those change over when a higher
version is ready, or a higher one goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from build_engines.errors import LiveFailure
from build_engines.live_server import LiveServer
from build_engines.retirement import CUT_SECONDS, retire_after_unload
from build_engines.served_versions import ServedVersions
from build_engines.version_gate import check_room, check_sound
from python_llm.contract import generator_model, role_model

__all__ = ["Promoted", "Server", "promote"]

_UNARY_SECONDS = 5.0  # for requests of the old unary view to have reached its generator


@dataclass(frozen=True)
class Server:
    """A running server: ``wait_seconds`` bound each wait, ``run_dir`` holds the way to its engines."""

    live: LiveServer
    run_dir: Path
    wait_seconds: float


@dataclass(frozen=True)
class Promoted:
    """What holds now. ``left``: models of the old version that are still there; ``kept``: why it was not retired."""

    active: int
    previous: int | None
    live: tuple[int, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    kept: str = ""
    measured: bool = True  # whether the active artifact's quality was


def promote(
    versions: ServedVersions, version: int, server: Server | None = None, *, keep_old: bool = False
) -> Promoted:
    """Let ``version`` answer; with ``keep_old`` the one that did stays live, for who names it.

    Raises:
        CallerMistake: the version is not there, is not sound, fails its gate, has no room, or files were edited.
        LiveFailure: the server did not load it, or did not answer; the old version answers as before.
    """
    versions.check_unedited()
    entry = versions.entry(version)
    artifact = check_sound(versions.name, version, versions.artifact(version))
    old, measured = versions.active, artifact.manifest.quality is not None
    live = tuple(sorted({old, version})) if keep_old else (version,)
    previous = versions.previous if version == old else old
    if server is None:
        _write(versions, version, live)
        versions.record(version, previous)
        return Promoted(version, previous, live, measured=measured)
    server.live.states()  # nothing is written where nobody answers
    if version not in versions.live:
        check_room(versions.name, version, artifact, entry.serving)
    both = tuple(sorted({*versions.live, version}))
    try:
        _bring(versions, server, version, both)
    except LiveFailure:
        with suppress(LiveFailure):
            _take(versions, server, old, versions.live)
        raise
    versions.record(version, previous)
    left, kept = ({}, "") if live == both else _dismiss(versions, server, version, live)
    return Promoted(version, previous, live, left, kept, measured)


def _write(versions: ServedVersions, active: int, live: tuple[int, ...]) -> None:
    for model, text in versions.configs(active, live):
        versions.write(model, text)


def _bring(versions: ServedVersions, server: Server, version: int, both: tuple[int, ...]) -> None:
    """Load the new steps beside the old ones, ask them, and give them to the ensemble."""
    for model, text in versions.configs(version, both):
        if model == versions.name:
            server.live.try_version(generator_model(versions.name), version, server.wait_seconds)
        versions.write(model, text)
        server.live.load_version(model, version, server.wait_seconds)


def _take(versions: ServedVersions, server: Server, active: int, live: tuple[int, ...]) -> None:
    """Back to what was: the ensemble first, which may hold steps that go."""
    for model, text in reversed([*versions.configs(active, live)]):
        versions.write(model, text)
        server.live.load_version(model, active, server.wait_seconds)


def _dismiss(
    versions: ServedVersions, server: Server, version: int, live: tuple[int, ...]
) -> tuple[Mapping[str, str], str]:
    """The versions that are live no more go: the unary view before the generator, which it asks."""
    going = [number for number in versions.live if number not in live]
    whys = (
        retire_after_unload(server.live, versions.name, number, server.run_dir, server.wait_seconds) for number in going
    )
    kept = "; ".join(filter(None, whys))
    configs = dict(versions.configs(version, live))
    unary = role_model(versions.name, "unary")
    for model in (unary, *(model for model in configs if model not in (unary, versions.name))):
        versions.write(model, configs[model])
        server.live.load_version(model, version, server.wait_seconds)
        if model == unary:
            server.live.await_gone([(unary, number) for number in going], min(_UNARY_SECONDS, server.wait_seconds))
    rows = [(model, number) for model in versions.models for number in going]
    patience = server.wait_seconds + (0.0 if kept else CUT_SECONDS)
    left = server.live.await_gone(rows, patience)
    return {f"{model}:{number}": state for (model, number), state in left.items()}, kept
