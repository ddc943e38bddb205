"""The chat page before a scripted API: answers, pauses, errors and absences on command, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from openai_gateway.routes.page import add_page

__all__ = ["PAUSE", "BreakOff", "Refusal", "ScriptedGateway"]

WAIT_SECONDS = 60.0  # only catches hangs

PAUSE = object()  # in an answer: wait until `go` is called


class BreakOff(str):
    """In an answer: an error with this text within the stream; an empty one ends the connection without a word."""


@dataclass(frozen=True)
class Refusal:
    """An answer that is an error."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        body = {"error": {"message": self.message, "type": "invalid_request_error", "param": None, "code": None}}
        return JSONResponse(body, self.status, dict(self.headers))


class ScriptedGateway:
    """``answers``: what the next questions get, a Refusal or pieces of text, PAUSE and BreakOff; the last one stays.
    ``questions``: the bodies that came. ``left``: callers who went away while they were answered.
    ``admin``: None, or the state of every model, which can be loaded and unloaded. ``key``: the API key to ask for.
    """

    def __init__(self) -> None:
        self.port = 0
        self.reset()

    def reset(self) -> None:
        self.answers: list[Refusal | Sequence[Any]] = [["An ", "answer."]]
        self.models: Refusal | list[dict[str, Any]] = [
            {"id": "smollm2", "ready": True, "versions": {"1": "READY"}, "max_model_len": 8192},
            {"id": "qwen", "ready": True, "versions": {"3": "READY"}, "max_model_len": 32768},
        ]
        self.admin: dict[str, str] | None = None
        self.change_refusal: Refusal | None = None
        self.key = ""
        self.finish_reason = "stop"
        self.questions: list[dict[str, Any]] = []
        self.left = threading.Semaphore(0)
        self._go = threading.Semaphore(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def go(self) -> None:
        """Let one PAUSE end."""
        self._go.release()

    def start(self) -> None:
        """Listen, on the port of before if there was one."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(self._app(), log_level="critical", timeout_graceful_shutdown=0, ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]})
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), "the scripted gateway does not stop"

    def _app(self) -> Starlette:
        app = Starlette(
            routes=[
                Route("/v1/models", self._list_models),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/admin/models", self._admin),
                Route("/admin/models/{name}/{action}", self._change, methods=["POST"]),
            ]
        )
        add_page(app)
        return app

    def _refused(self, request: Request) -> Response | None:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return Refusal(401, "API key: none was sent, or it is not known; send it as a bearer token.").response()
        return None

    async def _list_models(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        if isinstance(self.models, Refusal):
            return self.models.response()
        return JSONResponse({"object": "list", "data": self.models})

    async def _admin(self, request: Request) -> Response:
        if self.admin is None:
            return Refusal(404, "url 'GET /admin/models': there is nothing here.").response()
        entries = [
            {"id": name, "state": state, "versions": [{"version": "1", "state": state, "reason": ""}]}
            for name, state in self.admin.items()
        ]
        return JSONResponse({"data": entries})

    async def _change(self, request: Request) -> Response:
        assert self.admin is not None
        if self.change_refusal:
            return self.change_refusal.response()
        name, loads = request.path_params["name"], request.path_params["action"] == "load"
        self.admin[name] = "ready" if loads else "unavailable"
        assert isinstance(self.models, list)
        self.models = [model for model in self.models if model["id"] != name] + ([{"id": name}] if loads else [])
        return JSONResponse({})

    async def _chat(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        self.questions.append(await request.json())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Refusal):
            return answer.response()
        return StreamingResponse(self._events(answer), media_type="text/event-stream")

    async def _events(self, answer: Sequence[Any]) -> AsyncIterator[str]:
        yield _event({"delta": {"role": "assistant", "content": ""}, "finish_reason": None})
        try:
            for piece in answer:
                if piece is PAUSE:
                    while not self._go.acquire(blocking=False):
                        yield ": still here\r\n\r\n"
                        await asyncio.sleep(0.01)
                elif isinstance(piece, BreakOff):
                    if piece:
                        yield f"data: {json.dumps({'error': {'message': piece}})}\n\n"
                    return
                else:
                    yield _event({"delta": {"content": piece}, "finish_reason": None})
        except asyncio.CancelledError:
            self.left.release()
            raise
        yield _event({"delta": {}, "finish_reason": self.finish_reason})
        tokens = sum(piece is not PAUSE for piece in answer)
        usage = {"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": 7 + tokens}
        yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n"


def _event(choice: dict[str, Any]) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, **choice}]})}\n\n"
