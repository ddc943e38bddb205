"""Whether a server can be asked: the launcher's /ready, and where there is none Triton's own word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from openai_gateway.upstreams.triton_rpc import TritonRpc

__all__ = ["Health", "look"]


@dataclass(frozen=True, slots=True)
class Health:
    """``phase``: the launcher's word, or ``unknown`` (not looked yet) or ``silent`` (it does not answer).

    ``models``: Triton's model -> its state; empty where the server does not say. ``reasons``: why not all requests
    can be served.
    """

    phase: str = "unknown"
    reasons: tuple[str, ...] = ("it was not asked yet",)
    models: Mapping[str, str] = field(default_factory=dict)

    @property
    def answers(self) -> bool:
        return self.phase not in ("unknown", "silent")

    def serves(self, model: str) -> bool:
        """Whether it takes requests for Triton's ``model``, as far as it says."""
        return self.phase == "ready" and (not self.models or self.models.get(model) == "READY")


async def look(url: str, rpc: TritonRpc, client: httpx.AsyncClient, timeout: float) -> Health:
    """One look; never raises for what a server may do. ``url``: of /ready, or empty."""
    if not url:
        ready = await rpc.ready(timeout)
        return Health("ready", ()) if ready else Health("silent", ("Triton does not say that it is ready",))
    try:
        answer = await client.get(url, timeout=timeout)
        return _read(answer.json())
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError, LookupError, AttributeError) as error:
        return Health("silent", (f"'{url}': {error or type(error).__name__}",))


def _read(body: Any) -> Health:
    return Health(
        phase=str(body["phase"]),
        reasons=tuple(str(reason) for reason in body["reasons"]),
        models={str(name): str(state) for name, state in body["models"].items()},
    )
