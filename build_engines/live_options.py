"""What the verbs of ``triton-llm repo`` share: the repository, and a server that runs on it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from build_engines.live_server import LiveServer
from python_llm.errors import CallerMistake
from python_llm.settings import ADMIN_KEY_VARIABLE

__all__ = ["add_run_dir", "add_wait", "read_server", "shared_options"]


def shared_options() -> argparse.ArgumentParser:
    """A parent parser of every verb."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--repository", type=Path, default=Path("model_repository"), help="default: model_repository")
    shared.add_argument("--json", action="store_true", help="print the result as JSON")
    group = shared.add_argument_group("running server")
    group.add_argument(
        "--url", metavar="URL", help="http://host:port of a Triton that serves this repository: load, unload or ask it"
    )
    group.add_argument(
        "--admin-key-file",
        type=Path,
        metavar="FILE",
        help=f"its administrative key, where it wants one: admin.key of its run folder (default: {ADMIN_KEY_VARIABLE})",
    )
    return shared


def add_wait(parser: argparse.ArgumentParser, seconds: float, what: str) -> None:
    parser.add_argument(
        "--wait-seconds",
        type=float,
        default=seconds,
        metavar="S",
        help=f"with --url, for {what} (default: {seconds:g})",
    )


def add_run_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("run"),
        metavar="DIR",
        help="with --url: the launcher's run folder, which holds the way to the model's engine (default: run)",
    )


def read_server(args: argparse.Namespace) -> LiveServer | None:
    """The server that --url names. Raises CallerMistake where an option cannot be."""
    if not getattr(args, "wait_seconds", 0.0) >= 0.0:
        raise CallerMistake(f"--wait-seconds {args.wait_seconds:g}: it must be 0 or more.")
    if args.url is None:
        if args.admin_key_file is not None:
            raise CallerMistake(f"--admin-key-file '{args.admin_key_file}': it goes with --url; name the server's URL.")
        return None
    key = os.environ.get(ADMIN_KEY_VARIABLE, "")
    if args.admin_key_file is not None:
        try:
            key = args.admin_key_file.read_text("utf-8").strip()
        except OSError as error:
            raise CallerMistake(
                f"--admin-key-file '{args.admin_key_file}': {error.strerror}; name the server's admin.key."
            ) from error
    return LiveServer(args.url, key)
