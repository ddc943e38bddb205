"""Who asks: what the protection in front of the routes found out, for all behind it."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import HTTPConnection

__all__ = ["ANONYMOUS", "Caller", "caller_of"]


@dataclass(frozen=True, slots=True)
class Caller:
    """``tenant`` and ``priority`` go to the generator. ``models_allowed``: names, for all versions; None: every model.

    ``scopes``: what the caller may do, of ``api``, ``metrics`` and ``admin``.
    """

    key_id: str = ""
    tenant: str = ""
    priority: int = 0
    models_allowed: frozenset[str] | None = None
    scopes: frozenset[str] = frozenset({"api", "metrics"})

    def may_use(self, model: str) -> bool:
        allowed = self.models_allowed
        return allowed is None or model in allowed or model.partition(":")[0] in allowed


ANONYMOUS = Caller()


def caller_of(connection: HTTPConnection) -> Caller:
    """The caller that the protection left in ``request.state.caller``; nobody in particular without protection."""
    caller: Caller = getattr(connection.state, "caller", ANONYMOUS)
    return caller
