"""The command line's options of the protection, and the settings they make."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from openai_gateway.protection.settings import KEYS_VARIABLE, Limits, ProtectionSettings
from python_llm.errors import CallerMistake

__all__ = ["add_protection", "read_protection"]

_LIMITS = {
    "requests_per_minute": "requests within any minute",
    "tokens_per_minute": "tokens, of prompts and answers, within any minute",
    "tokens_per_day": "tokens within any 24 hours",
    "max_running": "requests at a time",
}
_SECONDS = {
    "header_seconds": "for a request's head to arrive, and for what is left of a refused body",
    "body_seconds": "for a request's body to arrive",
    "stalled_seconds": "after which a client that takes nothing of its answer is cut",
}
_FLAG = {"1": True, "true": True, "yes": True, "": False, "0": False, "false": False, "no": False}


def add_protection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("protection")
    group.add_argument(
        "--keys",
        type=Path,
        default=os.environ.get("GATEWAY_KEYS_FILE") or None,
        metavar="FILE",
        help=f"API keys, a line each, read again on change (default: GATEWAY_KEYS_FILE; {KEYS_VARIABLE} holds lines)",
    )
    group.add_argument(
        "--anonymous",
        action="store_true",
        help="serve all who reach --host, without keys (or GATEWAY_ANONYMOUS=1)",
    )
    group.add_argument("--public-metrics", action="store_true", help="/metrics needs no key")
    for name, meaning in _LIMITS.items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=int,
            default=0,
            metavar="N",
            help=f"most {meaning}, of a key that does not say its own; 0: any (default: 0)",
        )
    _add_lists(group)
    for name, meaning in _SECONDS.items():
        default = getattr(ProtectionSettings(), name)
        flag = f"--{name.replace('_', '-')}"
        group.add_argument(flag, type=float, default=default, metavar="S", help=f"{meaning} (default: {default:g})")
    group.add_argument("--tls-certificate", type=Path, metavar="FILE", help="serve HTTPS with this PEM chain")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="and its private key")
    group.add_argument("--tls-client-ca", type=Path, metavar="FILE", help="clients must show a certificate of this one")
    group.add_argument("--no-access-log", action="store_true", help="write no line for each request")


def _add_lists(group: argparse._ArgumentGroup) -> None:
    for flag, metavar, meaning in (
        ("--serve-model", "MODEL", "serve this model alone, and others so named; repeatable (default: all)"),
        ("--cors-origin", "ORIGIN", "web pages of this origin may ask, * for any; repeatable (default: none)"),
        ("--allowed-host", "NAME", "a name the gateway goes by, where there are no keys; repeatable"),
    ):
        group.add_argument(flag, action="append", default=[], metavar=metavar, help=meaning)


def read_protection(args: argparse.Namespace) -> ProtectionSettings:
    """Raises CallerMistake where an option cannot work."""
    return ProtectionSettings(
        keys_file=args.keys,
        keys_text=os.environ.get(KEYS_VARIABLE, ""),
        anonymous=args.anonymous or _flag("GATEWAY_ANONYMOUS"),
        public_metrics=args.public_metrics,
        limits=Limits(**{name: getattr(args, name) for name in _LIMITS}),
        models=tuple(args.serve_model),
        cors_origins=tuple(args.cors_origin),
        allowed_hosts=tuple(args.allowed_host),
        tls_certificate=args.tls_certificate,
        tls_key=args.tls_key,
        tls_client_ca=args.tls_client_ca,
        access_log=not args.no_access_log,
        **{name: getattr(args, name) for name in _SECONDS},
    )


def _flag(variable: str) -> bool:
    said = os.environ.get(variable, "")
    if said.lower() not in _FLAG:
        raise CallerMistake(f"{variable} '{said}': it must be 1 or 0.")
    return _FLAG[said.lower()]
