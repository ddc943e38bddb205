"""``triton-llm repo promote``, ``rollback`` and ``status``: versions of a served model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from build_engines.errors import StorageError
from build_engines.live_options import add_run_dir, add_wait, read_server
from build_engines.promotion import Promoted, Server, promote
from build_engines.served_versions import ServedVersions
from build_engines.version_lock import version_lock
from python_llm.artifact import MANIFEST, Artifact
from python_llm.errors import CallerMistake
from python_llm.settings import ServingConfig

__all__ = ["VERSION_ACTIONS", "add_version_actions", "stage"]

_KEPT = "its engine was not retired: "


def add_version_actions(actions: Any, shared: argparse.ArgumentParser) -> None:
    """``actions``: the subparsers of ``triton-llm repo``."""
    promote_ = actions.add_parser("promote", parents=[shared], help="let a version that is there answer")
    promote_.add_argument("name", help="the served model's name")
    promote_.add_argument("version", type=int, help="the version that is to answer")
    rollback = actions.add_parser("rollback", parents=[shared], help="promote the version that answered before")
    rollback.add_argument("name", help="the served model's name")
    for parser in (promote_, rollback):
        parser.add_argument(
            "--keep-old", action="store_true", help="the version that answers now stays live, for who names it"
        )
        add_wait(parser, 60.0, "the new version to be ready, and the old one's requests to end")
        add_run_dir(parser)
    status = actions.add_parser("status", parents=[shared], help="show a model's versions, and which one answers")
    status.add_argument("name", help="the served model's name")


def stage(name: str, version: int, artifact: Path, repository: Path, serving: ServingConfig) -> str:
    """Write a version beside those that are there; says what to do next."""
    with version_lock(name, repository):
        versions = ServedVersions.read(name, repository)
        versions.check_unedited()
        versions.add(version, artifact, serving)
    return f"next: triton-llm repo promote {name} {version}"


def _promote(args: argparse.Namespace) -> str:
    with version_lock(args.name, args.repository):
        return _switch(args, ServedVersions.read(args.name, args.repository), args.version)


def _rollback(args: argparse.Namespace) -> str:
    with version_lock(args.name, args.repository):
        versions = ServedVersions.read(args.name, args.repository)
        if versions.previous is None:
            raise StorageError(
                f"model '{args.name}': no version answered before version {versions.active}, or its folders are gone; "
                "there is nothing to go back to: name a version with 'triton-llm repo promote'."
            )
        return _switch(args, versions, versions.previous)


def _switch(args: argparse.Namespace, versions: ServedVersions, version: int) -> str:
    live = read_server(args)
    server = None if live is None else Server(live, args.run_dir, args.wait_seconds)
    done = promote(versions, version, server, keep_old=args.keep_old)
    if args.json:
        return json.dumps({"model": args.name, **asdict(done), "server": None if live is None else live.url})
    return f"{args.name}: version {done.active} answers{_where(args)}{_notes(args, done)}"


def _where(args: argparse.Namespace) -> str:
    if args.url is None:
        return " from the server's next start on; --url switches a running one"
    return f" at {args.url}"


def _notes(args: argparse.Namespace, done: Promoted) -> str:
    notes = []
    if len(done.live) > 1:
        live = ", ".join(map(str, done.live))
        notes.append(f"live: {live}; requests to a role that name no version go to {max(done.live)}, as Triton does")
    if not done.measured:
        notes.append("its quality was never measured")
    if done.left:
        left = ", ".join(f"{row} is {state}" for row, state in done.left.items())
        freed = _KEPT + done.kept if done.kept else "its engine is retired, its memory free; a restart frees the rest"
        notes.append(f"after {args.wait_seconds:g} s {left}: requests run on, or Triton lost count of some; {freed}")
    elif done.kept:
        notes.append(_KEPT + done.kept)
    return "".join(f"; {note}" for note in notes)


def _status(args: argparse.Namespace) -> str:
    versions = ServedVersions.read(args.name, args.repository)
    live = read_server(args)
    states = None if live is None else live.version_states()
    rows = [_row(versions, number, states) for number in versions.numbers]
    edited = ""
    try:
        versions.check_unedited()
    except CallerMistake as error:
        edited = str(error)
    if args.json:
        record = {"model": args.name, "active": versions.active, "previous": versions.previous, "versions": rows}
        return json.dumps(record | ({"edited": edited} if edited else {}))
    return "\n".join([*map(_line, rows), *([edited] if edited else [])])


def _row(versions: ServedVersions, number: int, states: Mapping[tuple[str, str], str] | None) -> dict[str, Any]:
    folder = versions.artifact(number)
    row: dict[str, Any] = {"version": number, "is": _standing(versions, number), "artifact": str(folder)}
    row["quality"] = _quality(folder)
    if states is not None:
        row["states"] = {m: states.get((m, str(number))) or "not loaded" for m in versions.models}
    return row


def _standing(versions: ServedVersions, number: int) -> str:
    if number == versions.active:
        return "active"
    if number in versions.live:
        return "live"
    return "previous" if number == versions.previous else "there"


def _quality(folder: Path) -> str:
    if not (folder / MANIFEST).is_file():
        return "artifact missing"
    found = Artifact.open(folder).manifest.quality
    if found is None:
        return "not measured"
    return "; ".join(found.get("missed", ())) or "passed"


def _line(row: Mapping[str, Any]) -> str:
    states = row.get("states")
    told = ""
    if states is not None:
        found = sorted(set(states.values()))
        told = f"  {found[0]}" if len(found) == 1 else "  " + ", ".join(f"{m}: {s}" for m, s in states.items())
    return f"{row['version']}  {row['is']}  {row['artifact']}  quality: {row['quality']}{told}"


VERSION_ACTIONS = {"promote": _promote, "rollback": _rollback, "status": _status}
