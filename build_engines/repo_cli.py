"""``triton-llm repo``: add, list and remove entries of the Triton model repository."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from build_engines.errors import SpecError
from build_engines.repository import add_entry, list_entries, remove_entry
from python_llm.artifact import Artifact
from python_llm.records import read_record
from python_llm.settings import ServingConfig

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="add|list|remove")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--repository", type=Path, default=Path("model_repository"), help="default: model_repository")
    shared.add_argument("--json", action="store_true", help="print the result as JSON")
    add = actions.add_parser("add", parents=[shared], help="write the entry that serves an artifact")
    add.add_argument("name", help="the served model's name")
    add.add_argument("--artifact", type=Path, help="the artifact's folder (default: engines/NAME)")
    add.add_argument("--engines", type=Path, default=Path("engines"), help="folder of artifacts (default: engines)")
    add.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="a serving knob; may be repeated")
    actions.add_parser("list", parents=[shared], help="show the entries and whether their artifacts are there")
    remove = actions.add_parser("remove", parents=[shared], help="remove an entry; its artifact stays")
    remove.add_argument("name", help="the served model's name")


def run(args: argparse.Namespace) -> int:
    actions = {"add": _add, "list": _list, "remove": _remove}
    print(actions[args.action](args))
    return 0


def _add(args: argparse.Namespace) -> str:
    path = args.artifact or args.engines / args.name
    Artifact.open(path)
    models = add_entry(args.name, path, args.repository, _serving(args.set))
    record = {"models": list(models), "repository": str(args.repository), "artifact": str(path)}
    return json.dumps(record) if args.json else f"{args.repository}: {args.name} serves {path}; next: triton-llm serve"


def _list(args: argparse.Namespace) -> str:
    entries = list_entries(args.repository)
    if args.json:
        records = [
            {"name": e.name, "models": e.models, "artifact": str(e.artifact), "present": e.present} for e in entries
        ]
        return json.dumps(records)
    lines = [f"{e.name}  {e.artifact}{'' if e.present else '  (missing: build it)'}" for e in entries]
    return "\n".join(lines) or f"no entries in {args.repository}; add one with: triton-llm repo add NAME"


def _remove(args: argparse.Namespace) -> str:
    folders = [str(folder) for folder in remove_entry(args.name, args.repository)]
    return json.dumps({"removed": folders}) if args.json else f"removed {', '.join(folders)}"


def _serving(pairs: list[str]) -> ServingConfig | None:
    """Knobs as given, or None to keep those of an entry that is there."""
    if not pairs:
        return None
    record: dict[str, Any] = {}
    for pair in pairs:
        knob, equals, value = pair.partition("=")
        if not equals:
            raise SpecError(f"--set '{pair}': it must be KNOB=VALUE.")
        try:
            record[knob] = json.loads(value)
        except ValueError:
            record[knob] = value  # plain text, as u8 or auto
    return read_record(ServingConfig, record, "--set")
