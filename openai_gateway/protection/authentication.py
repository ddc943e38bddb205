"""Who asks, by the key that came; and whether that one may come to this path at all."""

from __future__ import annotations

import hmac
import ipaddress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from openai_gateway.caller import Caller
from openai_gateway.error_answers import error_answer
from openai_gateway.protection.key_ring import KeyRing
from openai_gateway.protection.keys import ADMIN, API, METRICS, ApiKey
from openai_gateway.protection.paths import path_of
from openai_gateway.protection.refusals import Forbidden, Unauthenticated
from openai_gateway.request_record import RECORD
from python_llm.settings import ADMIN_KEY_HEADER

__all__ = ["Authentication"]

_OPEN = ("/", "/openapi.json", "/health/live", "/health/ready", "/health")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
_NOBODY = Caller(scopes=frozenset())


class Authentication:
    """Leaves a Caller in the request's state, and the ApiKey (None without one).

    ``admin_key``: the header ADMIN_KEY_HEADER that holds it opens what ADMIN and METRICS open. Without keys everybody
    is API's and METRICS' caller; and ADMIN's, where the gateway listens to this machine alone (``local``), the
    connection comes from it and through no proxy, and there is no ``admin_key``.
    """

    def __init__(
        self, app: ASGIApp, keys: KeyRing, *, admin_key: str = "", local: bool = True, public_metrics: bool = False
    ) -> None:
        self._app, self._keys = app, keys
        self._admin_key = admin_key
        self._local = local
        self._public_metrics = public_metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            caller, key = self._caller(scope)
            self._check(caller, path_of(scope))
        except Unauthenticated as error:
            await error_answer(error, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        except Forbidden as error:
            await error_answer(error)(scope, receive, send)
            return
        scope.setdefault("state", {}).update(caller=caller, api_key=key)
        if record := RECORD.get(None):
            record.key_id, record.tenant = caller.key_id, caller.tenant
        await self._app(scope, receive, send)

    def _caller(self, scope: Scope) -> tuple[Caller, ApiKey | None]:
        headers = Headers(scope=scope)
        if self._admin_key and (given := headers.get(ADMIN_KEY_HEADER)):
            if not hmac.compare_digest(given.encode(), self._admin_key.encode()):
                raise Forbidden(f"header '{ADMIN_KEY_HEADER}': it must hold the admin key.")
            return Caller(key_id="admin key", scopes=frozenset((ADMIN, METRICS))), None
        if not self._keys.configured:
            return Caller(scopes=self._of_everybody(scope, headers)), None
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        if not sent.strip():
            return _NOBODY, None
        key = self._keys.find(sent.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            if path_of(scope) in _OPEN:
                return _NOBODY, None
            raise Unauthenticated("it is not known, or no longer taken")
        return key.caller(), key

    def _of_everybody(self, scope: Scope, headers: Headers) -> frozenset[str]:
        forwarded = any(name in headers for name in _FORWARDED)
        here = self._local and not forwarded and _is_loopback((scope.get("client") or ("",))[0])
        return frozenset((API, METRICS, ADMIN) if here and not self._admin_key else (API, METRICS))

    def _check(self, caller: Caller, path: str) -> None:
        needed = _needed(path)
        if not needed or needed in caller.scopes or (needed == METRICS and self._public_metrics):
            return
        if caller == _NOBODY:
            raise Unauthenticated("none was sent")
        if needed == ADMIN and not self._keys.configured:
            raise Forbidden(
                f"url '{path}': without keys only this machine may ask; send the admin key in '{ADMIN_KEY_HEADER}', or "
                "give the gateway keys, one with the scope 'admin'."
            )
        raise Forbidden(f"url '{path}': key '{caller.key_id}' has not the scope '{needed}'; use one that has.")


def _needed(path: str) -> str:
    """The scope that opens the path; empty: it is open."""
    if path in _OPEN or path.startswith("/static/"):
        return ""
    if path == "/admin" or path.startswith("/admin/"):
        return ADMIN
    return METRICS if path == "/metrics" else API


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
