"""The synchronous client: the asynchronous one on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, TypeVar

from python_llm.errors import InvalidRequest, RequestCancelled
from triton_llm_client.aio import DEFAULT_MODEL, DEFAULT_URL, AsyncClient
from triton_llm_client.chunks import Chunk
from triton_llm_client.params import GenerateParams
from triton_llm_client.prompts import Prompt
from triton_llm_client.results import Completion
from triton_llm_client.transport import Transport

__all__ = ["Client"]

T = TypeVar("T")
_ABSENT = GenerateParams()


class Client:
    """AsyncClient for code without an event loop; methods, errors and URLs are the same. Threads may share it.

    Example::

        with Client("127.0.0.1:8001", model="smollm2") as client:
            for chunk in client.stream("The capital of France is"):
                print(chunk.text, end="", flush=True)
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        model: str = DEFAULT_MODEL,
        ensemble: bool = False,
        transport: Transport | None = None,
    ):
        self._client = AsyncClient(url, model=model, ensemble=ensemble, transport=transport)
        self._loop = asyncio.new_event_loop()
        self._running: set[asyncio.Task[Any] | None] = set()  # what callers asked for; grpc has tasks of its own here
        self._closing = False
        self._thread = Thread(target=self._loop.run_forever, name="triton-llm-client", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return self._client.url

    def stream(
        self, prompt: Prompt, params: GenerateParams = _ABSENT, *, request_id: str | None = None
    ) -> Generator[Chunk, None, None]:
        """Yield the answer's chunks as they come; leaving early (or ``close()``) cancels the request."""
        self._check_open()
        chunks = self._client.stream(prompt, params, request_id=request_id)
        inbox: SimpleQueue[Chunk | _End] = SimpleQueue()
        pump = self._start(lambda: _pump(chunks, inbox))
        ended = False
        try:
            while not ended:
                item = inbox.get()
                if isinstance(item, _End):
                    ended = True
                    if item.error is not None:
                        raise item.error
                else:
                    yield item
        finally:
            pump.cancel()
            while not ended:
                ended = isinstance(inbox.get(), _End)

    def generate(
        self,
        prompt: Prompt,
        params: GenerateParams = _ABSENT,
        *,
        request_id: str | None = None,
        on_chunk: Callable[[Chunk], object] | None = None,
    ) -> Completion:
        """Return the whole answer; ``on_chunk`` is called on the client's own thread with each chunk."""
        self._check_open()
        return self._wait(lambda: self._client.generate(prompt, params, request_id=request_id, on_chunk=on_chunk))

    def cancel(self, request_id: str) -> None:
        """See AsyncClient.cancel."""
        self._check_open()
        self._wait(lambda: self._client.cancel(request_id))

    def ready(self) -> bool:
        """See AsyncClient.ready."""
        self._check_open()
        return self._wait(self._client.ready)

    def close(self) -> None:
        """Cancel what runs, close the connection and end the thread; idempotent."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _end_all(self) -> None:
        self._closing = True
        running = [task for task in self._running if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._client.close()

    def _check_open(self) -> None:
        if self._loop.is_closed():
            raise InvalidRequest("client_closed", f"client of '{self.url}': it is closed; make another.")

    def _start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(self._run(work), self._loop)

    async def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.current_task()
        self._running.add(task)
        if self._closing and task is not None:
            task.cancel()
        try:
            return await work()
        finally:
            self._running.discard(task)

    def _wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        future = self._start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


class _End:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


async def _pump(chunks: AsyncGenerator[Chunk, None], inbox: SimpleQueue[Chunk | _End]) -> None:
    end = _End()
    try:
        async for chunk in chunks:
            inbox.put(chunk)
    except asyncio.CancelledError:  # by the reader, who looks no more, or by close()
        end.error = RequestCancelled("client_closed", "request: the client was closed while it ran.")
    except Exception as error:
        end.error = error
    finally:
        await chunks.aclose()
        inbox.put(end)
