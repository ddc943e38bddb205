"""Command-line options that the client's verbs share."""

from __future__ import annotations

import argparse
import os

from triton_llm_client.aio import DEFAULT_MODEL
from triton_llm_client.client import Client
from triton_llm_client.transport import DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT

__all__ = ["add_server_arguments", "client_of", "url_of"]

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument("--model", default=DEFAULT_MODEL, help="served name (default: %(default)s)")
    group.add_argument(
        "--url",
        help="host:port or grpc://host:port for gRPC, http://host:port for HTTP (default: HOST with GRPC_PORT or "
        f"HTTP_PORT of the environment, else 127.0.0.1 with {DEFAULT_GRPC_PORT} or {DEFAULT_HTTP_PORT})",
    )
    group.add_argument("--ensemble", action="store_true", help="go through the model's ensemble, not its generator")
    group.add_argument("--http", action="store_true", help="use HTTP where the URL does not say (default: gRPC)")


def client_of(args: argparse.Namespace) -> Client:
    return Client(url_of(args), model=args.model, ensemble=args.ensemble)


def url_of(args: argparse.Namespace) -> str:
    """The URL the options name; ``--http`` gives an address without a scheme the scheme http."""
    address = args.url or _default_address(args.http)
    return f"http://{address}" if args.http and "://" not in address else address


def _default_address(http: bool) -> str:
    variable, port = ("HTTP_PORT", DEFAULT_HTTP_PORT) if http else ("GRPC_PORT", DEFAULT_GRPC_PORT)
    host = os.environ.get("HOST") or "127.0.0.1"
    return f"{_EVERY_ADDRESS.get(host, host)}:{os.environ.get(variable) or port}"
