"""The asynchronous client; the synchronous one in ``client`` runs this one."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from types import TracebackType

from python_llm.contract import ENSEMBLE, GENERATOR, generator_model
from python_llm.errors import InvalidRequest, ServeError
from triton_llm_client.chunks import Chunk
from triton_llm_client.params import GenerateParams
from triton_llm_client.prompts import Prompt, prompt_tensors
from triton_llm_client.results import Collector, Completion
from triton_llm_client.transport import DEFAULT_GRPC_PORT, Call, Transport, open_transport

__all__ = ["DEFAULT_MODEL", "DEFAULT_URL", "AsyncClient", "new_request_id"]

DEFAULT_MODEL = "smollm2"
DEFAULT_URL = f"127.0.0.1:{DEFAULT_GRPC_PORT}"
_ABSENT = GenerateParams()


def new_request_id() -> str:
    """An id no other request has; ``cancel`` takes it."""
    return uuid.uuid4().hex


class AsyncClient:
    """A client of one server; ``model`` is the served name. One connection carries all requests.

    Example::

        async with AsyncClient() as client:
            async for chunk in client.stream("The capital of France is"):
                print(chunk.text, end="", flush=True)

    ``ensemble`` sends requests through the served model's ensemble instead of its generator, as clients written for
    NVIDIA's ensemble do; prompts are text or messages there. ``version`` names a version of the model, where the server
    has several.

    ``url``: ``host:port`` or ``grpc://host:port`` for gRPC streaming, ``http://host:port`` for HTTP. Every method
    raises ServeError subclasses (``python_llm.errors``; ``.reason`` is machine-readable), ServerUnreachable among
    them. Use it on one event loop.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        model: str = DEFAULT_MODEL,
        ensemble: bool = False,
        version: str = "",
        transport: Transport | None = None,
    ):
        self._transport = transport or open_transport(url)
        self._version = version
        self._generator = generator_model(model)
        self._ensemble = model if ensemble else ""

    @property
    def url(self) -> str:
        return self._transport.url

    def stream(
        self,
        prompt: Prompt,
        params: GenerateParams = _ABSENT,
        *,
        request_id: str | None = None,
        deltas: bool = True,
    ) -> AsyncGenerator[Chunk, None]:
        """Yield the answer's chunks as they come; without ``deltas`` they come at once, with the end (beams need that).

        Leaving the iteration early cancels the request on the server: at once with
        ``async with contextlib.aclosing(client.stream(...)) as chunks``, else when the generator is collected.
        """
        return self._chunks(self._call(prompt, params, request_id, stream=deltas))

    async def generate(
        self,
        prompt: Prompt,
        params: GenerateParams = _ABSENT,
        *,
        request_id: str | None = None,
        on_chunk: Callable[[Chunk], object] | None = None,
    ) -> Completion:
        """Return the whole answer; of several sequences see Completion.choices.

        With ``on_chunk`` the answer is streamed and each chunk is passed on as it comes; without it the server
        sends one response. Cancelling the task, or an exception out of ``on_chunk``, cancels the request.
        """
        call = self._call(prompt, params, request_id, stream=on_chunk is not None)
        collector = Collector(call.request_id)
        async with aclosing(self._chunks(call)) as chunks:
            async for chunk in chunks:
                collector.add(chunk)
                if on_chunk is not None:
                    on_chunk(chunk)
        return collector.completion()

    async def cancel(self, request_id: str) -> None:
        """Ask the server to end the running request with this id, whoever sent it.

        Raises:
            NotFound: no such request is running.
        """
        call = Call(self._generator, request_id, {"stop": (True,)}, stream=False, version=self._version)
        async with aclosing(self._transport.chunks(call)) as chunks:
            async for _ in chunks:
                pass

    async def ready(self) -> bool:
        """Whether the server takes requests for the model now."""
        return await self._transport.ready(self._ensemble or self._generator)

    async def close(self) -> None:
        """Close the connection; running requests are cancelled."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _call(self, prompt: Prompt, params: GenerateParams, request_id: str | None, *, stream: bool) -> Call:
        if not isinstance(params, GenerateParams):
            raise InvalidRequest("invalid_params", f"params of type {type(params).__name__}: use GenerateParams(…).")
        if request_id is not None and not isinstance(request_id, str):
            raise InvalidRequest("invalid_request_id", f"request_id {request_id!r}: it must be text.")
        tensors = {**prompt_tensors(prompt), **params.tensors()}
        request_id = request_id or new_request_id()
        if self._ensemble:
            return Call(self._ensemble, request_id, tensors, stream, ENSEMBLE, self._version)
        return Call(self._generator, request_id, tensors, stream, GENERATOR, self._version)

    async def _chunks(self, call: Call) -> AsyncGenerator[Chunk, None]:
        ended = False
        try:
            async with aclosing(self._transport.chunks(call)) as chunks:
                async for chunk in chunks:
                    yield chunk
            ended = True
        finally:
            if self._ensemble and not ended:  # Triton does not tell an ensemble's steps that its client left
                with suppress(ServeError):
                    await self.cancel(call.request_id)
