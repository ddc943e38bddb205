"""``triton-llm container``: what a container runs. Build what is missing, write the entry, serve; logs to stdout.

Each step is a command of its own, so that a signal ends whichever runs: the build at once, the server after its drain.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from python_llm.artifact import MANIFEST
from triton_launcher.errors import LaunchRefused
from triton_launcher.foreground import run_in_foreground
from triton_launcher.log_lines import render
from triton_launcher.options import ServeOptions

__all__ = ["add_arguments", "run"]

# Variables of a build, as in the Makefile -> flags of `triton-llm build`.
_BUILD_FLAGS = {
    "ENGINE": "--engine",
    "QUANT": "--quant",
    "REVISION": "--revision",
    "TP": "--tp",
    "PP": "--pp",
    "KV_DTYPE": "--kv-dtype",
    "CALIB": "--calib",
    "MAX_BATCH_SIZE": "--max-batch-size",
    "MAX_INPUT_LEN": "--max-input-len",
    "MAX_SEQ_LEN": "--max-seq-len",
    "MAX_NUM_TOKENS": "--max-num-tokens",
}
# Those that are set or not.
_BUILD_SWITCHES = {"ALLOW_QUALITY_LOSS": "--allow-quality-loss", "TRUST_REMOTE_CODE": "--trust-remote-code"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    variables = ", ".join([*_BUILD_FLAGS, *_BUILD_SWITCHES])
    parser.usage = "%(prog)s [options] [-- options of triton-llm serve]"
    parser.epilog = f"A build reads these variables: {variables}."
    parser.add_argument(
        "--model",
        default=os.environ.get("MODEL", ""),
        help="hub id, folder, .gguf file or 'smollm2', built where its artifact is missing (MODEL)",
    )
    parser.add_argument("--name", default=os.environ.get("NAME", ""), help="the served model's name (NAME)")
    parser.add_argument("--engines", type=Path, default=Path(os.environ.get("ENGINES") or "engines"), metavar="FOLDER")
    parser.add_argument("--model-repository", type=Path, default=ServeOptions().model_repository, metavar="FOLDER")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KNOB=VALUE", help="a serving knob of the entry; repeatable"
    )
    parser.add_argument("--build-only", action="store_true", help="build what is missing, and end")
    parser.add_argument("--run-dir", type=Path, default=ServeOptions().run_dir, metavar="FOLDER")
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default=os.environ.get("LOG_FORMAT") or "text",
        help="json: one object a line, tritonserver's lines too (LOG_FORMAT; default: text)",
    )
    parser.add_argument("serve", nargs="*", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """The exit code of the step that failed, or of the server.

    Raises:
        LaunchRefused: there is no artifact and nothing to build it from.
    """
    for command in _steps(args):
        log = args.run_dir / "tritonserver.log" if command[0] == "serve" else None
        code = run_in_foreground([sys.executable, "-m", "triton_llm.cli", *command], args.log_format, log)
        if code:
            return code
    return 0


def _steps(args: argparse.Namespace) -> Iterator[list[str]]:
    name = args.name or Path(args.model).name.removesuffix(".gguf")
    folder = ["--model-repository", str(args.model_repository), "--run-dir", str(args.run_dir)]
    if not name:
        if args.build_only or args.set:
            raise LaunchRefused("model '': there is no model to build or to set knobs of; set MODEL and NAME.")
        yield ["serve", *folder, *args.serve]
        return
    artifact = args.engines / name
    if (artifact / MANIFEST).is_file():
        print(render(f"engine {artifact}: there, not built again.", "launcher", args.log_format), flush=True)
    else:
        yield _build(args, name, artifact, os.environ)
    if not args.build_only:
        knobs = [argument for knob in args.set for argument in ("--set", knob)]
        repository = ["--repository", str(args.model_repository)]
        yield ["repo", "add", name, "--artifact", str(artifact), *repository, *knobs]
        yield ["serve", "--model", name, *folder, *args.serve]


def _build(args: argparse.Namespace, name: str, artifact: Path, environment: Mapping[str, str]) -> list[str]:
    if not args.model:
        raise LaunchRefused(
            f"engine '{artifact}': no {MANIFEST} there, and no model to build it from; set MODEL, or mount the folder "
            "that holds it and name it with ENGINES."
        )
    chosen = ((flag, environment.get(variable, "")) for variable, flag in _BUILD_FLAGS.items())
    flags = [argument for flag, value in chosen if value for argument in (flag, value)]
    flags += [flag for variable, flag in _BUILD_SWITCHES.items() if environment.get(variable)]
    return ["build", args.model, "--name", name, "--engines", str(args.engines), *flags]
