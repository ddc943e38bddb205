"""The application behind its protection, in order."""

from __future__ import annotations

import ipaddress
import logging

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from openai_gateway.protection.access_log import AccessLog
from openai_gateway.protection.allowances import Allowances
from openai_gateway.protection.authentication import Authentication
from openai_gateway.protection.body_deadline import BodyDeadline
from openai_gateway.protection.key_ring import KeyRing
from openai_gateway.protection.limits import Book
from openai_gateway.protection.request_ids import HEADER, RequestIds
from openai_gateway.protection.same_origin import THIS_MACHINE, SameOrigin
from openai_gateway.protection.settings import ProtectionSettings
from openai_gateway.protection.stalled_reader import StalledReader
from python_llm.errors import CallerMistake

__all__ = ["is_local", "protect"]

_log = logging.getLogger(__name__)
_TOLD = (
    HEADER,
    "Retry-After",
    *(f"x-ratelimit-{word}-{what}" for word in ("limit", "remaining", "reset") for what in ("requests", "tokens")),
)


def protect(app: ASGIApp, settings: ProtectionSettings, *, host: str = "127.0.0.1", admin_key: str = "") -> ASGIApp:
    """``host``: where the gateway listens.

    Raises:
        CallerMistake: the keys cannot be read; or there are none, and more than this machine may come.
    """
    keys, local = KeyRing(settings.keys_file, settings.keys_text), is_local(host)
    if not keys.configured:
        _say_anonymous(settings, host, local)
    app = Allowances(app, Book(), settings.limits)
    app = Authentication(app, keys, admin_key=admin_key, local=local, public_metrics=settings.public_metrics)
    app = StalledReader(BodyDeadline(app, settings.body_seconds), settings.stalled_seconds)
    if not keys.configured:
        names = settings.allowed_hosts or (THIS_MACHINE if local else ())
        app = SameOrigin(app, names, settings.cors_origins)
    if settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),  # OpenAI's clients send many of their own
            expose_headers=_TOLD,
        )
    return RequestIds(AccessLog(app))


def is_local(host: str) -> bool:
    """Whether what listens on ``host`` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _say_anonymous(settings: ProtectionSettings, host: str, local: bool) -> None:
    if not local and not settings.anonymous:
        raise CallerMistake(
            f"host '{host}': others than this machine can reach it, and no API keys are configured; make one with "
            "'triton-llm gateway-key NAME --file keys.jsonl' and give --keys keys.jsonl, or let everybody in with "
            "--anonymous."
        )
    _log.warning("no API keys: whoever reaches %s may use the models%s", host, " and load and unload them" * local)
