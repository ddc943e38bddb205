"""Whatever befalls the servers, and whenever: the client has the undisturbed answer, nothing twice and nothing torn."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from fake_generators import FATES, PROMPT_TOKENS, Fate, answer
from python_llm.errors import ServeError
from tests.unit.openai_gateway.upstreams.conftest import behind
from triton_llm_client import Chunk, Completion, GenerateParams
from triton_llm_client.results import Collector
from triton_llm_client.transport import Call

PARAMS = st.builds(
    GenerateParams,
    max_tokens=st.integers(1, 12),
    seed=st.integers(0, 2**64 - 1),
    num_return_sequences=st.sampled_from([None, 1, 2, 3]),
)
FATE = st.builds(Fate, st.integers(0, 12), st.sampled_from(sorted(FATES)))


@given(params=PARAMS, fates=st.lists(st.lists(FATE, max_size=3), min_size=2, max_size=3), prompt=st.text(min_size=1))
def test_the_answer_is_the_undisturbed_one(params: GenerateParams, fates: list[list[Fate]], prompt: str) -> None:
    told = asyncio.run(ask(params, fates, prompt))
    whole = list(answer(Call("m-generator", "r", {"text_input": (prompt,), **params.tensors()}, True)))
    assert substance(total(told)) == substance(total(whole))
    told_usage = [chunk.input_tokens for chunk in told if chunk.input_tokens is not None]
    assert told_usage == [PROMPT_TOKENS]
    assert told[-1].input_tokens == PROMPT_TOKENS
    assert told[-1].seed == params.seed
    assert all("torn" not in chunk.text for chunk in told)
    ended: set[int] = set()
    for chunk in told:
        assert chunk.sequence_index not in ended
        ended |= {chunk.sequence_index} if chunk.finish_reason else set()


async def ask(params: GenerateParams, fates: list[list[Fate]], prompt: str) -> list[Chunk]:
    async with behind(len(fates), most_failures=100) as servers:
        for (name, generator), befall in zip(servers.generators.items(), fates, strict=True):
            generator.fates.extend(befall)

            async def drain(name: str = name) -> None:
                servers.pool.drain(name)
                if not any(not server.drained for server in servers.pool.servers):  # as if others came
                    for server in servers.pool.servers:
                        servers.pool.restore(server.name)
                    servers.pool.drain(name)

            generator.on_drain = drain
        chunks: list[Chunk] = []
        while not chunks:  # where every server failed before its first word, the caller may ask again
            try:
                async for chunk in servers.upstream.stream("m", prompt, params, request_id="r"):
                    chunks.append(chunk)
            except ServeError:
                assert not chunks, "an error in the middle of the answer"
        assert all(server.load == 0 and not server.running for server in servers.pool.servers)
        return chunks


def total(chunks: list[Chunk]) -> Completion:
    collector = Collector("r")
    for chunk in chunks:
        collector.add(chunk)
    return collector.completion()


def substance(completion: Completion) -> object:
    return completion.choices, completion.input_tokens, completion.seed
