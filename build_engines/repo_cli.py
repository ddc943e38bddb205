"""``triton-llm repo``: entries of the Triton model repository and their versions, also in a running server."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from build_engines.errors import LiveFailure, SpecError
from build_engines.live_options import add_run_dir, add_wait, read_server, shared_options
from build_engines.live_server import LiveServer
from build_engines.repository import (
    SCORED_KINDS,
    Entry,
    add_entry,
    add_scorer,
    find_entry,
    knobs_of,
    list_entries,
    remove_entry,
)
from build_engines.retirement import CUT_SECONDS, retire
from build_engines.spec import check_name
from build_engines.version_cli import VERSION_ACTIONS, add_version_actions, stage
from python_llm.artifact import Artifact
from python_llm.errors import CallerMistake
from python_llm.records import read_record
from python_llm.settings import ServingConfig

__all__ = ["add_arguments", "run", "serving_of"]

_NEVER_LOADED = "not loaded"
_STILL_SERVED = (
    "note: if a server serves it, it goes on, unwatched, until it is unloaded or restarted; --url unloads it too"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="add|list|status|promote|rollback|remove")
    shared = shared_options()
    add = actions.add_parser("add", parents=[shared], help="write the entry that serves an artifact")
    add.add_argument("name", help="the served model's name")
    add.add_argument("--artifact", type=Path, help="the artifact's folder (default: engines/NAME)")
    add.add_argument("--engines", type=Path, default=Path("engines"), help="folder of artifacts (default: engines)")
    add.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KNOB=VALUE",
        help="a serving knob, beside those the entry has; KNOB= puts it back to its default; may be repeated",
    )
    add.add_argument(
        "--version",
        type=int,
        metavar="N",
        help="write it as version N beside those that are there; nothing changes for clients until it is promoted",
    )
    add.add_argument("--verify", action="store_true", help="hold every file of the artifact to its checksum again")
    add_wait(add, 600.0, "the models to be ready")
    add_version_actions(actions, shared)
    actions.add_parser("list", parents=[shared], help="show what is served, from which artifact, and its state")
    remove = actions.add_parser("remove", parents=[shared], help="remove an entry; its artifact stays")
    remove.add_argument("name", help="the served model's name")
    add_wait(remove, 60.0, "running requests to finish; with --run-dir they are cut then")
    add_run_dir(remove)


def run(args: argparse.Namespace) -> int:
    actions = {"add": _add, "list": _list, "remove": _remove, **VERSION_ACTIONS}
    print(actions[args.action](args))
    return 0


def _add(args: argparse.Namespace) -> str:
    if args.version is not None:
        return _add_version(args)
    path = args.artifact or args.engines / check_name(args.name)
    add_models = add_scorer if Artifact.open(path, verify=args.verify).kind in SCORED_KINDS else add_entry
    server = read_server(args)
    serving = serving_of(args.set, knobs_of(args.name, args.repository))
    knobs = _knobs(serving)
    if server is not None:
        server.states()  # nothing is written where nobody answers
    models = list(add_models(args.name, path, args.repository, serving))
    if server is not None:
        _load(server, models, knobs, args)
    if args.json:
        record = {"models": models, "repository": str(args.repository), "artifact": str(path), "serving": knobs}
        return json.dumps(record | ({"loaded": server.url} if server else {}))
    next_step = f"loaded at {server.url}" if server else "next: triton-llm serve"
    said = (
        f"knobs: {', '.join(f'{k}={_text(v)}' for k, v in knobs.items())}" if knobs else "all knobs at their defaults"
    )
    return f"{args.repository}: {args.name} serves {path}; {said}; {next_step}"


def _add_version(args: argparse.Namespace) -> str:
    if args.url is not None:
        raise CallerMistake(f"--url '{args.url}': a version is loaded when it is promoted; leave it out here.")
    if args.artifact is None:
        raise CallerMistake(f"--version {args.version}: name the version's artifact with --artifact.")
    Artifact.open(args.artifact, verify=args.verify)
    serving = serving_of(args.set, knobs_of(args.name, args.repository))
    next_step = stage(args.name, args.version, args.artifact, args.repository, serving)
    if args.json:
        record = {"model": args.name, "version": args.version, "artifact": str(args.artifact)}
        return json.dumps(record | {"serving": _knobs(serving)})
    return f"{args.repository}: {args.name} version {args.version} is {args.artifact}; not served yet; {next_step}"


def _load(server: LiveServer, models: list[str], knobs: Mapping[str, Any], args: argparse.Namespace) -> None:
    """Load what was written. A failure that names a knob of the entry with its value is the caller's."""
    try:
        server.load(models, args.wait_seconds)
    except LiveFailure as error:
        text = (
            f"{error} The entry stays in '{args.repository}': correct it with 'triton-llm repo add {args.name} --set "
            f"KNOB=VALUE', or remove it with 'triton-llm repo remove {args.name}'."
        )
        if any(
            re.search(rf"\b{knob} '?{re.escape(_text(value))}'?[:;,.]", str(error)) for knob, value in knobs.items()
        ):
            raise CallerMistake(text) from error
        raise LiveFailure(text) from error


def _list(args: argparse.Namespace) -> str:
    entries = list_entries(args.repository)
    server = read_server(args)
    states = server.states() if server else None
    if args.json:
        return json.dumps([_record(entry, states) for entry in entries])
    lines = [_line(entry, states) for entry in entries]
    absent = "" if args.repository.exists() else ", which does not exist"
    return "\n".join(lines) or f"no entries in {args.repository}{absent}; add one with: triton-llm repo add NAME"


def _remove(args: argparse.Namespace) -> str:
    """Out of the server first: a restart of it must find every entry that it is to load."""
    server = read_server(args)
    models = find_entry(args.name, args.repository).models
    kept = "" if server is None else retire(server, models, args.run_dir, args.wait_seconds)
    patience = args.wait_seconds + (0.0 if kept else CUT_SECONDS)
    left = server.unload(reversed(models), patience) if server else {}
    if left:
        raise _still_there(args, left, kept)
    folders = [str(folder) for folder in remove_entry(args.name, args.repository)]
    if args.json:
        return json.dumps({"removed": folders} | ({"unloaded": server.url, "retired": not kept} if server else {}))
    if server is None:
        return f"removed {', '.join(folders)}; {_STILL_SERVED}"
    return f"removed {', '.join(folders)}; unloaded at {server.url}{kept and f'; its engine was not retired: {kept}'}"


def _still_there(args: argparse.Namespace, left: Mapping[str, str], kept: str) -> LiveFailure:
    """``kept``: why its engine was not retired."""
    states = ", ".join(f"{model} is {state}" for model, state in left.items())
    text = f"model '{args.name}': after {args.wait_seconds:g} s {states} at '{args.url}'; its folders are kept, "
    lost = "Triton lost count of requests whose clients left an ensemble"
    remedy = "run this command without --url, and restart the server"
    if not kept:
        return LiveFailure(
            f"{text}new requests are refused. Its engine is retired: what ran is cut, its memory is free. {lost}, and "
            f"keeps its processes: {remedy} when it suits."
        )
    return LiveFailure(
        f"{text}new requests are refused. Requests may still run: run this command again, with a greater "
        f"--wait-seconds. Or {lost}: stop the server, {remedy}. Its engine keeps its memory, it was not retired: {kept}"
    )


def _record(entry: Entry, states: Mapping[str, str] | None) -> dict[str, Any]:
    record = {**asdict(entry), "artifact": str(entry.artifact)}
    return record if states is None else record | {"states": {m: _state(states, m) for m in entry.models}}


def _line(entry: Entry, states: Mapping[str, str] | None) -> str:
    line = f"{entry.name}  {entry.artifact}{'' if entry.present else '  (missing: build it)'}"
    if states is None:
        return line
    found = {model: _state(states, model) for model in entry.models}
    if len(set(found.values())) == 1:
        return f"{line}  {next(iter(found.values()))}"
    return f"{line}  {', '.join(f'{model}: {state}' for model, state in found.items())}"


def _state(states: Mapping[str, str], model: str) -> str:
    return states.get(model) or _NEVER_LOADED


def serving_of(pairs: list[str], kept: ServingConfig) -> ServingConfig:
    """The knobs that are kept, and over them those that are given as KNOB=VALUE.

    Raises:
        SpecError, RecordError: a pair is none, or no such knob takes such a value.
    """
    record, defaults = _knobs(kept), asdict(ServingConfig())
    for pair in pairs:
        knob, equals, value = pair.partition("=")
        if not (knob and equals):
            raise SpecError(f"--set '{pair}': it must be KNOB=VALUE, as max_running=8, or KNOB= for the default.")
        record[knob] = defaults.get(knob) if value == "" else _value(value)
    return read_record(ServingConfig, record, "--set")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # plain, as u8 or auto


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _knobs(serving: ServingConfig) -> dict[str, Any]:
    """Those that are not at their defaults."""
    defaults = asdict(ServingConfig())
    return {knob: value for knob, value in asdict(serving).items() if value != defaults[knob]}
