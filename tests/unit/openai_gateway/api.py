"""The API before a scripted generator, asked without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.types import ASGIApp, Message

from openai_gateway.api_settings import ApiSettings
from openai_gateway.app import create_app
from openai_gateway.upstream import ModelCard
from scripted_upstream import Asked, ScriptedUpstream, Step, words

__all__ = ["CARDS", "CHAT", "COMPLETION", "Api", "OpenStream", "api", "events_of", "run"]

CARDS = (
    ModelCard("m", versions={"1": "READY"}, context_length=64, tool_calls="hermes"),
    ModelCard("plain", versions={"1": "READY"}),
)
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
COMPLETION: dict[str, Any] = {"model": "m", "prompt": "hi"}
WAIT = 60.0  # only catches hangs


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), WAIT))


@dataclass
class Api:
    app: ASGIApp
    client: httpx.AsyncClient
    upstream: ScriptedUpstream

    async def chat(self, **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/chat/completions", json={**CHAT, **fields})

    async def complete(self, **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/completions", json={**COMPLETION, **fields})

    @property
    def asked(self) -> Asked:
        return self.upstream.asked[-1]


@asynccontextmanager
async def api(
    *answers: Sequence[Step],
    cards: Sequence[ModelCard] = CARDS,
    settings: ApiSettings = ApiSettings(),  # noqa: B008 - frozen
) -> AsyncIterator[Api]:
    """``answers``: of the next requests; the last one stays. None: every answer is ``one two``."""
    upstream = ScriptedUpstream(answers or [words("one", " two")], cards)
    app = create_app(upstream, settings)
    wire = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=wire, base_url="http://127.0.0.1:9000") as client:
        yield Api(app, client, upstream)


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events of a whole stream, whose end mark must be there once, at the end."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    told = answer.content.split(b"\n\n")
    assert told.pop() == b""
    assert told.pop() == b"data: [DONE]"
    return [_event(one) for one in told if not one.startswith(b":")]


def _event(raw: bytes) -> dict[str, Any]:
    assert len(raw.decode().splitlines()) == 1, "one line, whatever a reader takes for a line's end"
    found: dict[str, Any] = json.loads(raw.removeprefix(b"data: "))
    return found


@dataclass
class OpenStream:
    """A request whose answer is read piece by piece, as the application sends it."""

    app: ASGIApp
    path: str
    body: dict[str, Any]
    sent: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[OpenStream]:
        self._left = asyncio.Event()
        self._task = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            await self.leave()

    async def next(self) -> bytes:
        """The next piece of the body."""
        while True:
            message = await self.sent.get()
            if message["type"] == "http.response.body":
                return bytes(message["body"])
            self.head = message

    async def leave(self) -> None:
        """As a client that closes its connection."""
        self._left.set()
        await self._task

    async def _run(self) -> None:
        raw = json.dumps(self.body).encode()
        head = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": head,
            "client": ("127.0.0.1", 40000),
            "server": ("127.0.0.1", 9000),
        }
        asked = False

        async def receive() -> Message:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": raw, "more_body": False}
            await self._left.wait()
            return {"type": "http.disconnect"}

        await self.app(scope, receive, self.sent.put)
