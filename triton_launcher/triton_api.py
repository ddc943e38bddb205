"""The little of Triton's HTTP API the launcher needs: is it ready, and which model is in which state."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from python_llm.settings import ADMIN_KEY_HEADER

__all__ = ["ModelState", "TritonApi"]

_UNLOADED = "unloaded"


@dataclass(frozen=True)
class ModelState:
    """Triton's word for a model: READY, LOADING, UNLOADING or UNAVAILABLE, and why.

    ``versions``: those that are ready.
    """

    state: str
    reason: str = ""
    versions: frozenset[str] = frozenset()

    @property
    def ready(self) -> bool:
        return self.state == "READY"

    @property
    def unloading(self) -> bool:
        return self.state == "UNLOADING"

    @property
    def unloaded(self) -> bool:
        """Somebody asked for it to be unloaded, and it is."""
        return self.state == "UNAVAILABLE" and self.reason == _UNLOADED

    def __str__(self) -> str:
        return f"{self.state} ({self.reason})" if self.reason else self.state


class TritonApi:
    """Every call opens a connection of its own; OSError and HTTPException mean that Triton does not answer."""

    def __init__(self, host: str, port: int, admin_key: str = "", timeout: float = 5.0) -> None:
        self._address = (host, port)
        self._headers = {ADMIN_KEY_HEADER: admin_key} if admin_key else {}
        self._timeout = timeout

    def is_ready(self) -> bool:
        try:
            return self._call("GET", "/v2/health/ready")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def models(self) -> Mapping[str, ModelState]:
        """Every model Triton has ever been asked to load, one state per name: READY when any version is."""
        status, body = self._call("POST", "/v2/repository/index", b"{}")
        if status != 200:
            raise http.client.HTTPException(f"repository index: status {status}: {body[:200]!r}")
        found: dict[str, ModelState] = {}
        for row in json.loads(body):
            state = _state(row)
            if state is None:
                continue
            known = found.get(row["name"], state)
            best = known if known.ready else state
            found[row["name"]] = replace(best, versions=known.versions | state.versions)
        return found

    def _call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self._address, timeout=self._timeout)
        try:
            connection.request(method, path, body, self._headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _state(row: Mapping[str, Any]) -> ModelState | None:
    """None for a folder of the repository that was never loaded."""
    if not row.get("state"):
        return None
    ready = {str(row["version"])} if row["state"] == "READY" and row.get("version") else ()
    return ModelState(row["state"], row.get("reason", ""), frozenset(ready))
