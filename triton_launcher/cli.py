"""``triton-llm serve``: start, supervise and drain a Triton server."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from triton_launcher.errors import LaunchRefused
from triton_launcher.options import ServeOptions
from triton_launcher.ports import Ports, ipv4_address

__all__ = ["add_arguments", "read_options", "run"]

GATEWAY_PORT = 9000
_SECONDS = {
    "start": "for all models to load",
    "drain": "for running requests to finish after SIGTERM or Ctrl-C",
    "stall": "without a step while work waits: the engine is stuck and Triton is restarted",
    "control": "without an answer to a control request: the backend is stuck and Triton is restarted",
    "status": "between two status requests to each generator",
    "probe": "between two real tokens asked of a generator that is idle",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = ServeOptions()
    parser.usage = "%(prog)s [options] [-- tritonserver options]"
    parser.add_argument("--model-repository", type=Path, default=defaults.model_repository, metavar="FOLDER")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="serve this model and its roles only; repeatable (default: every complete entry)",
    )
    parser.add_argument(
        "--host",
        default=os.environ.get("HOST") or defaults.host,
        help="address to listen on; beyond loopback, Triton's administrative APIs want a key (default: %(default)s)",
    )
    for name, port in vars(defaults.ports).items():
        parser.add_argument(
            f"--{name}-port",
            type=int,
            default=os.environ.get(f"{name.upper()}_PORT") or port,
            metavar="PORT",
            help="(default: %(default)s)",
        )
    parser.add_argument(
        "--gateway-port",
        type=int,
        default=os.environ.get("GATEWAY_PORT") or GATEWAY_PORT,
        metavar="PORT",
        help="of the OpenAI API and the chat page (default: %(default)s)",
    )
    parser.add_argument("--no-gateway", action="store_true", help="start Triton alone")
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=defaults.run_dir,
        metavar="FOLDER",
        help="log, backend folder and notes of this run; one launcher at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--log-file", type=Path, metavar="FILE", help="tritonserver's output (default: tritonserver.log in --run-dir)"
    )
    parser.add_argument(
        "--backend",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a further Python-based backend: a folder that holds model.py; repeatable",
    )
    for name, meaning in _SECONDS.items():
        default = getattr(defaults, f"{name}_seconds")
        parser.add_argument(
            f"--{name}-seconds", type=float, default=default, metavar="S", help=f"{meaning} (default: {default:g})"
        )
    parser.add_argument("tritonserver", nargs="*", help=argparse.SUPPRESS)


def read_options(args: argparse.Namespace) -> ServeOptions:
    """Raises LaunchRefused where an option cannot work."""
    return ServeOptions(
        model_repository=args.model_repository,
        models=tuple(args.model),
        host=ipv4_address(args.host),
        ports=Ports(args.http_port, args.grpc_port, args.metrics_port, args.health_port),
        gateway_port=0 if args.no_gateway else _gateway_port(args.gateway_port),
        run_dir=args.run_dir,
        log_file=args.log_file,
        backends=tuple(args.backend),
        tritonserver_arguments=_passed_on(args.tritonserver),
        **{f"{name}_seconds": getattr(args, f"{name}_seconds") for name in _SECONDS},
    )


def run(args: argparse.Namespace) -> int:
    from triton_launcher.supervisor import serve  # gRPC is slow to import: not for --help

    return serve(read_options(args))


def _gateway_port(port: int) -> int:
    if not port:
        raise LaunchRefused("--gateway-port 0: it must lie between 1 and 65535; --no-gateway starts none.")
    return port


def _passed_on(arguments: list[str]) -> tuple[str, ...]:
    for argument in arguments[:1]:
        if not argument.startswith("-"):
            raise LaunchRefused(f"argument '{argument}': not known; options of tritonserver come after '--'.")
    return tuple(arguments)
