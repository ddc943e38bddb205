"""Anything that speaks OpenAI's completions, streamed: the gateway, llama.cpp's server, a service elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import httpx

from python_llm.errors import EngineFailure
from triton_llm_client.bench.load import Answer, BenchPrompt
from triton_llm_client.bench.server import tail_of
from triton_llm_client.bench.subjects import Absent, Setting
from triton_llm_client.bench.subjects.streaming import StreamingSubject
from triton_llm_client.bench.timeline import Timeline
from triton_llm_client.failures import ServerUnreachable
from triton_llm_client.sse import SseParser

__all__ = ["OpenAISubject", "open_gateway", "open_openai"]

_ASKED: Mapping[str, Any] = {"temperature": 0.0, "ignore_eos": True, "stream": True}
# Between its turns a subject is idle for seconds, and servers close idle connections: llama.cpp's after 5 s, perhaps
# just as the next request goes out on one. So they are not kept that long here.
_IDLE_SECONDS = 1.0
_USAGE = {"stream_options": {"include_usage": True}}


def open_gateway(setting: Setting) -> OpenAISubject:
    if setting.gateway_url is None:
        raise Absent("gateway: the bench was given a server whose gateway is unknown; say --gateway-url.")
    folder = setting.folder
    return OpenAISubject(
        "gateway",
        setting.gateway_url,
        setting.model,
        tail=(lambda: tail_of(folder)) if folder is not None else (lambda: ""),
    )


def open_openai(setting: Setting) -> OpenAISubject:
    """Its key, where it wants one, is in OPENAI_API_KEY."""
    if setting.openai_url is None:
        raise Absent("openai: no address; say --openai-url http://host:port/v1 and --openai-model NAME.")
    return OpenAISubject("openai", setting.openai_url, setting.openai_model, key=os.environ.get("OPENAI_API_KEY", ""))


class OpenAISubject(StreamingSubject):
    """Streams ``/completions``. Services that lack ``ignore_eos`` may end early: then tokens are those they report."""

    def __init__(
        self,
        name: str,
        url: str,
        model: str,
        *,
        key: str = "",
        flags: str = "",
        more: Mapping[str, Any] = _USAGE,
        reuse: bool = True,
        closing: ExitStack | None = None,
        tail: Callable[[], str] = lambda: "",
        transport: httpx.AsyncBaseTransport | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """``more``: fields that go with every request; ``reuse``: connections, which a server may close at any moment;
        ``transport`` and ``loop`` replace network and time in tests.
        """
        super().__init__(
            name, flags or f"{url}, completions over SSE, model {model}", closing or ExitStack(), tail, loop
        )
        self._model, self._more = model, more
        self._url = f"{url.rstrip('/')}/completions"
        headers = {"authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=64 if reuse else 0, keepalive_expiry=_IDLE_SECONDS
        )
        timeout = httpx.Timeout(None, connect=10.0)
        self._http = httpx.AsyncClient(timeout=timeout, limits=limits, headers=headers, transport=transport)

    async def _disconnect(self) -> None:
        await self._http.aclose()

    async def _send(self, prompt: BenchPrompt, output_tokens: int) -> Answer:
        asked = prompt if isinstance(prompt, str) else list(prompt)
        body = {"model": self._model, "prompt": asked, "max_tokens": output_tokens, **_ASKED, **self._more}
        line = Timeline(asyncio.get_running_loop().time)
        usage: dict[str, int] = {}
        try:
            async with self._http.stream("POST", self._url, json=body) as response:
                if response.status_code != 200:
                    said = (await response.aread()).decode("utf-8", "replace").strip()[:400]
                    raise EngineFailure("http_error", f"'{self._url}': HTTP {response.status_code}: {said}")
                parser = SseParser()
                async for piece in response.aiter_bytes():
                    for event in parser.feed(piece):
                        usage = self._look(event, line) or usage
        except httpx.TransportError as error:
            raise ServerUnreachable(self._url, str(error) or type(error).__name__) from error
        return line.answer(usage.get("completion_tokens"), usage.get("prompt_tokens", 0))

    def _look(self, event: str, line: Timeline) -> dict[str, int] | None:
        """The usage, where the event tells it. A first chunk without text, a role alone, is no first token."""
        if event.strip() == "[DONE]":
            return None
        said = json.loads(event)
        if "error" in said:
            raise EngineFailure("stream_error", f"'{self._url}': {said['error']}")
        for choice in said.get("choices", ()):
            text = choice.get("text") or choice.get("delta", {}).get("content")
            line.saw(int(bool(text)))
        usage: dict[str, int] | None = said.get("usage")
        return usage
