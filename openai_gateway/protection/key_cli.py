"""``triton-llm gateway-key``: a new API key, shown once, and the line that stores it."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from openai_gateway.protection.keys import API, SCOPES, ApiKey, hash_of, new_key, parse_keys
from python_llm.errors import CallerMistake

__all__ = ["add_arguments", "run"]

_NUMBERS = {
    "requests_per_minute": "requests within any minute",
    "tokens_per_minute": "tokens, of prompts and answers, within any minute",
    "tokens_per_day": "tokens within any 24 hours",
    "max_running": "requests at a time",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="who will use it: it stands in logs and, without --tenant, for its tenant")
    parser.add_argument("--file", type=Path, metavar="FILE", help="append the line to this keys file")
    parser.add_argument("--tenant", default="", help="whose requests these are to the generator (default: the name)")
    parser.add_argument("--priority", type=int, default=0, help="to the generator; lower runs earlier (default: 0)")
    parser.add_argument("--model", action="append", default=[], help="a model it may use; repeatable (default: all)")
    parser.add_argument("--scope", action="append", choices=SCOPES, help=f"what it opens; repeatable (default: {API})")
    parser.add_argument("--expires", default="", metavar="DATE", help="the first day on which it is not taken")
    for name, meaning in _NUMBERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=f"most {meaning}")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    key = new_key()
    entry = ApiKey(
        name=args.name,
        hash=hash_of(key),
        tenant=args.tenant,
        priority=args.priority,
        models=tuple(args.model),
        scopes=tuple(args.scope or (API,)),
        expires=args.expires,
        **{name: getattr(args, name) for name in _NUMBERS},
    )
    if args.file is not None:
        _append(args.file, entry)
    if args.json:
        print(json.dumps({"key": key, "entry": json.loads(entry.line())}))
        return 0
    print(f"key (shown this once): {key}")
    print(f"stored in {args.file}" if args.file else f"line for the keys file:\n{entry.line()}")
    return 0


def _append(file: Path, entry: ApiKey) -> None:
    """Readable by its owner alone where it is new."""
    try:
        before = file.read_text("utf-8") if file.exists() else ""
        parse_keys(f"{before}\n{entry.line()}", str(file))
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as out:
            out.write(("" if before.endswith("\n") or not before else "\n") + entry.line() + "\n")
    except OSError as error:
        raise CallerMistake(f"keys file '{file}': {error.strerror}; name a file that can be written.") from error
