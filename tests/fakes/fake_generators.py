"""Generators behind the gateway that meet their fates on command; the wire is left out.

The next token depends on the prompt, the seed, the sequence's index and every token before it, as a sampled and
penalised one does: an answer that goes on with anything but the tokens, index and seed it had becomes another answer.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from python_llm.errors import EngineFailure, InvalidRequest, Unavailable
from triton_llm_client import Chunk, ServerUnreachable
from triton_llm_client.transport import Call

__all__ = ["FATES", "FakeGenerator", "Fate", "answer"]

PROMPT_TOKENS = 7
_END = 0  # this token ends a sequence


@dataclass(frozen=True)
class Fate:
    """What happens to one request after so many chunks."""

    after: int
    kind: str


class FakeGenerator:
    """A Transport. ``fates`` befall the next requests in turn; ``calls`` are those that came.

    ``tokens_a_chunk``: servers cut their answers differently.
    """

    def __init__(self, url: str, tokens_a_chunk: int = 1) -> None:
        self.url = url
        self.fates: deque[Fate] = deque()
        self.calls: list[Call] = []
        self.left = 0  # requests whose caller went away
        self.on_drain: Callable[[], Awaitable[None]] | None = None
        self._tokens_a_chunk = tokens_a_chunk

    async def chunks(self, call: Call) -> AsyncGenerator[Chunk, None]:
        self.calls.append(call)
        fate = self.fates.popleft() if self.fates else Fate(-1, "none")
        ended = False
        try:
            for number, chunk in enumerate(answer(call, self._tokens_a_chunk)):
                if number == fate.after:
                    if fate.kind == "cut":
                        yield Chunk("torn\ufffd", (99, 98), chunk.sequence_index, "cancelled", output_tokens=99)
                        return
                    if fate.kind == "eof":
                        ended = True
                        return
                    await FATES[fate.kind](self)
                await asyncio.sleep(0)
                yield chunk
            ended = True
        finally:
            self.left += not ended

    async def ready(self, model: str) -> bool:
        return True

    async def close(self) -> None:
        """Nothing is open."""


async def _die(server: FakeGenerator) -> None:
    raise ServerUnreachable(server.url, "recvmsg: Connection reset by peer")


async def _refuse_connection(server: FakeGenerator) -> None:
    raise ServerUnreachable(server.url, "failed to connect to all addresses")


async def _fail(server: FakeGenerator) -> None:
    raise EngineFailure("engine_failed", "engine: it failed.")


async def _be_full(server: FakeGenerator) -> None:
    raise Unavailable("queue_full", "queue: 1 requests wait (max_queue_size); ask again: retry after 0.0 s.")


async def _drain(server: FakeGenerator) -> None:
    """Somebody tells the gateway; the server itself says nothing more."""
    assert server.on_drain is not None
    await server.on_drain()
    await asyncio.Event().wait()


async def _nothing(server: FakeGenerator) -> None:
    """Handled where the chunks are made."""


FATES: Mapping[str, Callable[[FakeGenerator], Awaitable[None]]] = {
    "die": _die,
    "refuse_connection": _refuse_connection,
    "fail": _fail,
    "full": _be_full,
    "drain": _drain,
    "cut": _nothing,
    "eof": _nothing,
}


def answer(call: Call, tokens_a_chunk: int = 1) -> Iterator[Chunk]:
    """The chunks of the whole answer, its sequences in turn."""
    asked = call.tensors
    count, first = _one(asked, "num_return_sequences", 1), _one(asked, "resume_index", 0)
    resumed = [int(token) for token in asked.get("resume_ids", ())]
    most = _one(asked, "max_tokens", 16)
    if count > 1 and (resumed or first):
        raise InvalidRequest("resume_one_sequence", "resume_ids: one sequence is resumed at a time.")
    if resumed and len(resumed) >= most:
        raise InvalidRequest("nothing_to_resume", f"resume_ids: {len(resumed)} tokens, max_tokens {most}.")
    running = [_sequence(asked, index, resumed, most, tokens_a_chunk) for index in range(first, first + count)]
    ended = 0
    while running:
        for sequence in list(running):
            chunk = next(sequence)
            if chunk.finish_reason is not None:
                running.remove(sequence)
                ended += 1
            yield _last(chunk, asked) if ended == count else chunk


def _sequence(asked: Mapping[str, Any], index: int, resumed: Sequence[int], most: int, size: int) -> Iterator[Chunk]:
    ids, total = list(resumed), 0.0
    while True:
        new: list[int] = []
        reason = None
        while len(new) < size and reason is None:
            token, _ = _draw(asked, index, [*ids, *new])
            if token == _END:
                reason = "stop"
            else:
                new.append(token)
                reason = "length" if len(ids) + len(new) == most else None
        log_probs = tuple(_draw(asked, index, [*ids, *new][: len(ids) + i])[1] for i in range(len(new)))
        total += sum(log_probs)
        ids += new
        yield Chunk(
            "".join(f"<{token}>" for token in new),
            tuple(new),
            index,
            reason,
            output_tokens=len(ids) if reason else None,
            log_probs=log_probs,
            log_prob_sum=total,
        )
        if reason:
            return


def _last(chunk: Chunk, asked: Mapping[str, Any]) -> Chunk:
    return Chunk(
        chunk.text,
        chunk.output_ids,
        chunk.sequence_index,
        chunk.finish_reason,
        PROMPT_TOKENS,
        chunk.output_tokens,
        _one(asked, "seed", 0),
        log_probs=chunk.log_probs,
        log_prob_sum=chunk.log_prob_sum,
    )


def _draw(asked: Mapping[str, Any], index: int, ids: Sequence[int]) -> tuple[int, float]:
    """The next token (one in 23 ends), and its log-prob: a multiple of 1/64, so that sums are exact."""
    what = repr((asked.get("text_input"), _one(asked, "seed", 0), index, tuple(ids)))
    drawn = hashlib.sha256(what.encode()).digest()
    return drawn[0] % 23, -drawn[1] / 64


def _one(asked: Mapping[str, Any], name: str, default: int) -> int:
    return int(asked.get(name, (default,))[0])
