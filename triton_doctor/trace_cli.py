"""``triton-llm trace``: the life of a request, as the generator that had it tells it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from build_engines.live_server import LiveServer
from python_llm.contract import generator_model
from python_llm.control_access import ControlAccess
from python_llm.errors import CallerMistake
from python_llm.settings import ADMIN_KEY_VARIABLE
from triton_doctor.trace_text import trace_text

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "request_id", help="the gateway's X-Request-Id, or the request's id at Triton; or its beginning"
    )
    parser.add_argument(
        "--run-dir", type=Path, default=Path("run"), metavar="DIR", help="the launcher's (default: run)"
    )
    parser.add_argument("--model", default="", metavar="NAME", help="ask this served model alone")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    """2 where no generator knows the request."""
    found = list(_traces(args))
    if not found:
        raise CallerMistake(
            f"request '{args.request_id}': no generator of '{args.run_dir}' knows it; each keeps its latest 512 "
            "requests, and none over a restart; look for its id in the gateway's log, or ask the other servers."
        )
    if args.json:
        print(json.dumps(found))
    else:
        print("\n\n".join(map(trace_text, found)))
    return 0


def _traces(args: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    access = _access(args.run_dir)
    server = LiveServer(access.http, _admin_key(args.run_dir))
    order = {"operation": "trace", "secret": access.secret, "request_id": args.request_id}
    for (model, version), state in server.version_states().items():
        wanted = generator_model(args.model) if args.model else model
        if state == "READY" and model == wanted and model.endswith(generator_model("")):
            for record in server.control(model, version, order)["traces"]:
                yield {"model": model, "version": version, **record}


def _admin_key(run_dir: Path) -> str:
    """Drawn where the server listens beyond loopback; empty where not."""
    file = run_dir / "admin.key"
    return os.environ.get(ADMIN_KEY_VARIABLE, "") or (file.read_text("utf-8").strip() if file.is_file() else "")


def _access(run_dir: Path) -> ControlAccess:
    try:
        return ControlAccess.read(run_dir)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CallerMistake(
            f"run folder '{run_dir}': no server's address and secret are there ({why}); name its launcher's "
            "folder with --run-dir, as the user who started it."
        ) from error
