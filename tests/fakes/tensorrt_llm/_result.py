"""What generate_async returns: one object that fills up as it is iterated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from tensorrt_llm._shape import make

__all__ = ["RequestOutput", "Update"]

_Completion: Any = make("CompletionOutput")
_Request: Any = make("RequestOutput")


@dataclass(frozen=True)
class Update:
    """What one step brought to one request: the outputs so far, or an error."""

    outputs: tuple[Any, ...] = ()
    finished: bool = False
    error: Exception | None = None


class CompletionOutput(_Completion):  # type: ignore[misc]
    """One sequence; ids and log-probs are cumulative, the differences are since the last update."""

    _last_ids = 0
    _last_logprobs = 0

    @property
    def length(self) -> int:
        return len(self.token_ids)

    @property
    def token_ids_diff(self) -> list[int]:
        ids: list[int] = self.token_ids[self._last_ids :]
        return ids

    @property
    def logprobs_diff(self) -> list[Any]:
        logprobs: list[Any] = self.logprobs[self._last_logprobs :]
        return logprobs


@dataclass
class _Waiting:
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Update] = field(default_factory=asyncio.Queue)


class RequestOutput(_Request):  # type: ignore[misc]
    """Made on the event loop that will iterate it, as in the library."""

    finished: bool

    def __init__(self, request_id: int, prompt_ids: list[int], sequences: int, abort: Callable[[int], None]) -> None:
        outputs = [CompletionOutput(index=index) for index in range(sequences)]
        super().__init__(request_id=request_id, prompt=None, prompt_token_ids=prompt_ids, outputs=outputs)
        self._abort = abort
        self._aborted = False
        self._waiting = _Waiting(asyncio.get_running_loop())

    def abort(self) -> None:
        self._aborted = True
        self._abort(self.request_id)

    def aborted(self) -> bool:
        return self._aborted

    def put(self, update: Update) -> None:
        """Called on the executor's thread; a caller whose loop is closed gets nothing."""
        if not self._waiting.loop.is_closed():
            self._waiting.loop.call_soon_threadsafe(self._waiting.queue.put_nowait, update)

    async def aresult(self) -> RequestOutput:
        async for _ in self:
            pass
        return self

    def __await__(self) -> Generator[Any, None, RequestOutput]:
        return self.aresult().__await__()

    def __aiter__(self) -> AsyncIterator[RequestOutput]:
        return self

    async def __anext__(self) -> RequestOutput:
        if self.finished:
            raise StopAsyncIteration
        update = await self._waiting.queue.get()
        if update.error is not None:
            self.finished = True
            raise update.error
        for mine, news in zip(self.outputs, update.outputs, strict=True):
            mine._last_ids, mine._last_logprobs = len(mine.token_ids), len(mine.logprobs)
            for name in ("token_ids", "logprobs", "prompt_logprobs", "cumulative_logprob", *_ENDS):
                setattr(mine, name, getattr(news, name))
        self.finished = update.finished
        return self


_ENDS = ("finish_reason", "stop_reason")
