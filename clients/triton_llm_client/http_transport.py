"""HTTP: Triton's generate and generate_stream routes over httpx."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import httpx

from python_llm.errors import CallerMistake
from triton_llm_client.chunks import Chunk, chunks_of
from triton_llm_client.failures import ServerUnreachable, from_http, from_message
from triton_llm_client.sse import SseParser
from triton_llm_client.tensors import checked_inputs, json_fields
from triton_llm_client.transport import Call, Headers

__all__ = ["HttpTransport"]

# An answer may take as long as the request's own timeout lets it; only connecting is bounded.
_TIMEOUT = httpx.Timeout(None, connect=10.0)
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64)


class HttpTransport:
    """See Transport. ``transport`` replaces the network in tests."""

    def __init__(self, url: str, *, transport: httpx.AsyncBaseTransport | None = None, headers: Headers = dict) -> None:
        self.url = url
        self._headers = headers
        try:
            _ = httpx.URL(url).host  # decodes an international name, which httpx else does while it connects
            self._client = httpx.AsyncClient(base_url=url, timeout=_TIMEOUT, limits=_LIMITS, transport=transport)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise CallerMistake(f"url '{url}': {error}; write http://host:port.") from error

    async def chunks(self, call: Call) -> AsyncGenerator[Chunk, None]:
        body, headers = _body(call), {**self._headers(), **_HEADERS}
        version = f"/versions/{call.version}" if call.version else ""
        route = f"/v2/models/{call.model}{version}/{'generate_stream' if call.stream else 'generate'}"
        try:
            async with self._client.stream("POST", route, content=body, headers=headers) as response:
                if response.status_code != 200:
                    raise from_http(response.status_code, _message(await response.aread()))
                if not call.stream:
                    for chunk in _chunks(json.loads(await response.aread()), call.first_index):
                        yield chunk
                    return
                events = SseParser()
                async for piece in response.aiter_bytes():
                    for event in events.feed(piece):
                        for chunk in _chunks(json.loads(event), call.first_index):
                            yield chunk
        except httpx.TransportError as error:
            raise ServerUnreachable(self.url, str(error) or type(error).__name__) from error

    async def ready(self, model: str) -> bool:
        try:
            answer = await self._client.get(f"/v2/models/{model}/ready", timeout=10)
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    async def close(self) -> None:
        await self._client.aclose()


_HEADERS = {"content-type": "application/json"}
_NO_TENSORS = frozenset(
    {"id", "model_name", "model_version", "parameters", "sequence_id", "sequence_start", "sequence_end"}
)


def _body(call: Call) -> bytes:
    fields = json_fields(checked_inputs(call.contract, call.inputs()))
    _pack_stop_ids(fields)
    if call.request_id:
        fields["id"] = call.request_id
    return json.dumps(fields, ensure_ascii=False).encode()


def _pack_stop_ids(fields: dict[str, Any]) -> None:
    """Triton's generate routes take no list of several numbers (see `failures`): these ids travel in vLLM's object."""
    if len(fields.get("stop_token_ids", ())) > 1:
        said = fields.get("sampling_parameters") or "{}"
        with suppress(ValueError):  # what is no JSON is refused by the server, in its words
            parsed = json.loads(said)
            if isinstance(parsed, dict) and "stop_token_ids" not in parsed:
                parsed["stop_token_ids"] = fields.pop("stop_token_ids")
                fields["sampling_parameters"] = json.dumps(parsed, ensure_ascii=False)


def _chunks(fields: dict[str, Any], index: int) -> tuple[Chunk, ...]:
    if "error" in fields:
        raise from_message(str(fields["error"]))
    tensors = ((name, value) for name, value in fields.items() if name not in _NO_TENSORS)
    return chunks_of({name: tuple(value) if isinstance(value, list) else (value,) for name, value in tensors}, index)


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body.strip().removeprefix(b"data:"))["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()
