"""A served model through the client in this package: its generator, its ensemble, over HTTP, and without a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer

from python_llm.contract import ROLES, role_model
from python_llm.errors import EngineFailure
from triton_llm_client.aio import AsyncClient
from triton_llm_client.bench.load import Answer, BenchPrompt
from triton_llm_client.bench.server import own_server, tail_of
from triton_llm_client.bench.subjects import Absent, Setting
from triton_llm_client.bench.subjects.streaming import StreamingSubject
from triton_llm_client.bench.timeline import Timeline
from triton_llm_client.chunks import Chunk
from triton_llm_client.params import GenerateParams
from triton_llm_client.transport import Call, Transport, open_transport

__all__ = ["ServedSubject", "open_ensemble", "open_http", "open_served", "open_unary"]


def open_served(setting: Setting) -> ServedSubject:
    """Connect to ``setting.url``, or start a server of our own for the artifact."""
    if setting.url is not None:
        return _subject("served", "gRPC streaming", setting, AsyncClient(setting.url, model=setting.model))
    closing = ExitStack()
    server = closing.enter_context(own_server(setting.artifact, setting.model))
    client = AsyncClient(server.url, model=setting.model)
    flags = f"own server on the same artifact, gRPC streaming, model {setting.model}"
    return ServedSubject("served", client, flags, closing=closing, tail=server.tail)


def open_ensemble(setting: Setting) -> ServedSubject:
    """Prompts go as text, which Triton's tokenizer makes into the same ids."""
    client = AsyncClient(_known(setting.url, "ensemble"), model=setting.model, ensemble=True)
    return _subject("ensemble", "gRPC streaming through the ensemble", setting, client, text=True)


def open_http(setting: Setting) -> ServedSubject:
    """Prompts go as text: this Triton's generate routes take no list of numbers."""
    client = AsyncClient(_known(setting.http_url, "http"), model=setting.model)
    return _subject("http", "HTTP generate_stream", setting, client, text=True)


def open_unary(setting: Setting) -> ServedSubject:
    transport = _Unary(open_transport(_known(setting.http_url, "unary")), setting.model)
    client = AsyncClient(transport.url, model=setting.model, transport=transport)
    return _subject("unary", "HTTP, one response", setting, client, text=True, streams=False)


class ServedSubject(StreamingSubject):
    """One request over one connection each; every chunk is read as a client would."""

    def __init__(
        self,
        name: str,
        client: AsyncClient,
        flags: str,
        *,
        closing: ExitStack,
        tail: Callable[[], str] = lambda: "",
        text_of: Callable[[list[int]], str] | None = None,
        streams: bool = True,
    ) -> None:
        """``text_of``: ids go as this text."""
        super().__init__(name, flags, closing, tail)
        self._client = client
        self._text_of = text_of
        self._streams = streams

    async def _disconnect(self) -> None:
        await self._client.close()

    async def _send(self, prompt: BenchPrompt, output_tokens: int) -> Answer:
        if self._text_of is not None and not isinstance(prompt, str):
            prompt = self._text_of(list(prompt))
        params = GenerateParams(max_tokens=output_tokens, temperature=0.0, ignore_eos=True)
        line = Timeline()

        def saw(chunk: Chunk) -> None:
            line.saw(len(chunk.output_ids) or int(bool(chunk.text)))

        answer = await self._client.generate(prompt, params, on_chunk=saw if self._streams else None)
        if answer.finish_reason != "length" or answer.ttft_seconds is None:
            raise EngineFailure("ended_early", f"request '{answer.request_id}': {answer.finish_reason}.")
        return line.answer(answer.output_tokens, answer.input_tokens or 0)


class _Unary:
    """Sends every call to the unary model."""

    def __init__(self, transport: Transport, model: str) -> None:
        self.url = transport.url
        self._transport = transport
        self._model = role_model(model, "unary")

    def chunks(self, call: Call) -> AsyncGenerator[Chunk, None]:
        return self._transport.chunks(replace(call, model=self._model, contract=ROLES["unary"], stream=False))

    async def ready(self, model: str) -> bool:
        return await self._transport.ready(self._model)

    async def close(self) -> None:
        await self._transport.close()


def _subject(
    name: str, route: str, setting: Setting, client: AsyncClient, *, text: bool = False, streams: bool = True
) -> ServedSubject:
    flags = f"server at {client.url}, {route}, model {setting.model}"
    file = setting.artifact / "tokenizer.json"
    text_of = _decoder(file) if text and file.is_file() else None
    folder = setting.folder
    tail = (lambda: tail_of(folder)) if folder is not None else (lambda: "")
    return ServedSubject(name, client, flags, closing=ExitStack(), tail=tail, text_of=text_of, streams=streams)


def _decoder(file: Path) -> Callable[[list[int]], str]:
    tokenizer = Tokenizer.from_file(str(file))

    def text_of(ids: list[int]) -> str:
        text: str = tokenizer.decode(ids, skip_special_tokens=False)
        return text

    return text_of


def _known(url: str | None, name: str) -> str:
    if url is None:
        raise Absent(f"{name}: the bench was given a server whose address for this is unknown; say it as an option.")
    return url
