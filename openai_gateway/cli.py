"""``triton-llm gateway``: OpenAI's API and the chat page in front of one Triton or several."""

from __future__ import annotations

import argparse
import os
from dataclasses import fields

from openai_gateway.api_settings import ApiSettings
from openai_gateway.protection.options import add_protection, read_protection
from openai_gateway.settings import DEFAULT_PORT, DEFAULT_UPSTREAM, GatewaySettings
from openai_gateway.upstreams.address import parse_address
from openai_gateway.upstreams.settings import UpstreamSettings
from openai_gateway.upstreams.versions import parse_weights
from python_llm.errors import CallerMistake
from python_llm.settings import ADMIN_KEY_VARIABLE

__all__ = ["add_arguments", "read_settings", "run"]

_OF_THE_SERVERS = {
    "health_seconds": "between two looks at a server",
    "missed_looks": "looks in a row without an answer after which a server is gone",
    "resolve_seconds": "between two resolutions of a DNS name",
    "breaker_failures": "failures in a row after which a server is asked no more",
    "breaker_seconds": "after which it is tried once more",
    "retry_seconds": "for a request of which nothing was streamed to wait for a place, as servers hint",
    "resume_seconds": "for a broken stream to find a server that continues it",
    "hold_seconds": "for a new request to wait for a server while none is up, as when all are scaled to zero",
    "hold_requests": "requests that may wait so",
    "load_bound": "of the mean load: as much may be on the server that has a prompt's beginning",
}
_OF_THE_API = {
    "keep_alive_seconds": "after which a silent stream gets a comment",
    "max_body_bytes": "longer bodies are refused",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--upstream",
        action="append",
        metavar="HOST:PORT[,HEALTH]",
        help="a Triton's gRPC address and its launcher's health port, host:port or URL; repeatable; a DNS name stands "
        f"for all its addresses (default: UPSTREAMS, words apart, or {DEFAULT_UPSTREAM})",
    )
    parser.add_argument("--host", default=os.environ.get("HOST") or "127.0.0.1", help="(default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=os.environ.get("GATEWAY_PORT") or DEFAULT_PORT, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--grace-seconds",
        type=float,
        default=30.0,
        metavar="S",
        help="for running streams to finish after SIGTERM (default: %(default)g)",
    )
    parser.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="MODEL=VERSION:SHARE,…",
        help="how a model's requests are shared among its versions; repeatable (default: Triton's own choice)",
    )
    parser.add_argument(
        "--tool-calls",
        action="append",
        default=[],
        metavar="MODEL=FORM",
        help="how a model writes calls of tools, where it does not say it itself; repeatable",
    )
    _add_numbers(parser, UpstreamSettings(), _OF_THE_SERVERS)
    _add_numbers(parser, ApiSettings(), _OF_THE_API)
    add_protection(parser)
    parser.add_argument("--parent", type=int, default=0, help=argparse.SUPPRESS)  # the launcher that started it


def read_settings(args: argparse.Namespace) -> GatewaySettings:
    """Raises CallerMistake where an option cannot work."""
    upstreams = args.upstream or os.environ.get("UPSTREAMS", "").split() or [DEFAULT_UPSTREAM]
    return GatewaySettings(
        upstreams=tuple(map(parse_address, upstreams)),
        host=args.host,
        port=args.port,
        grace_seconds=args.grace_seconds,
        admin_key=os.environ.get(ADMIN_KEY_VARIABLE, ""),
        parent=args.parent,
        servers=UpstreamSettings(
            weights=dict(map(parse_weights, args.weights)), **{name: getattr(args, name) for name in _OF_THE_SERVERS}
        ),
        api=ApiSettings(
            tool_calls=dict(map(_tool_calls, args.tool_calls)), **{name: getattr(args, name) for name in _OF_THE_API}
        ),
        protection=read_protection(args),
    )


def run(args: argparse.Namespace) -> int:
    from openai_gateway.serve import serve  # gRPC and FastAPI are slow to import: not for --help

    return serve(read_settings(args))


def _add_numbers(parser: argparse.ArgumentParser, defaults: object, meanings: dict[str, str]) -> None:
    known = {field.name for field in fields(defaults)}  # type: ignore[arg-type]
    for name, meaning in meanings.items():
        assert name in known
        default = getattr(defaults, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(default),
            default=default,
            metavar="S" if name.endswith("seconds") else "N",
            help=f"{meaning} (default: {default:g})",
        )


def _tool_calls(text: str) -> tuple[str, str]:
    model, separator, form = text.partition("=")
    if not (model and separator and form):
        raise CallerMistake(f"--tool-calls '{text}': write MODEL=FORM, as in qwen=hermes.")
    return model, form
