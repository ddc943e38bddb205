"""One text over every route, whatever the tokens, for both kinds of tokenizer, while three detokenizers race.

The echo engine answers with its prompt's tokens in a circle, so the tokens of every answer are known; the reference is
their bytes, decoded as a whole.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from python_llm.tokenizer import Tokenizer
from server_under_test import ServerUnderTest
from triton_llm_client import AsyncClient, Completion, GenerateParams
from triton_llm_client.prompts import Prompt

MODELS = ("bytes", "pieces")
ids_of_any_token = st.lists(st.integers(0, 10**6), min_size=1, max_size=24)
# Few examples of many requests each: a server takes its time, and a crowd is what makes detokenizers race.
crowds = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # shrinking against a server takes for ever
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Words:
    """A model's tokenizer, and what its tokens say."""

    def __init__(self, model: str, checkpoint: Path) -> None:
        self.model = model
        self.tokenizer = Tokenizer.load(checkpoint)
        count = 512 if model == "bytes" else 280
        self._ids = [i for i in range(count) if self.tokenizer.token_bytes[i]]  # not the special ones

    def ids(self, numbers: Sequence[int]) -> list[int]:
        return [self._ids[number % len(self._ids)] for number in numbers]

    def raw(self, ids: Sequence[int]) -> bytes:
        return b"".join(self.tokenizer.token_bytes[i] for i in ids)

    def text(self, ids: Sequence[int]) -> str:
        return self.raw(ids).decode("utf-8", "replace")

    def whole_characters(self, ids: Sequence[int]) -> int:
        """How many characters are whole after these tokens."""
        return len(codecs.getincrementaldecoder("utf-8")("replace").decode(self.raw(ids)))

    def inside_a_token(self, ids: Sequence[int], number: int) -> int:
        """A place in the text where no token ends; the text's end where there is none."""
        ends = {self.whole_characters(ids[:count]) for count in range(len(ids) + 1)}
        places = [place for place in range(1, len(self.text(ids))) if place not in ends]
        return places[number % len(places)] if places else len(self.text(ids))


@pytest.fixture(scope="module", params=MODELS)
def words(request: pytest.FixtureRequest, checkpoints: dict[str, Path]) -> Words:
    return Words(request.param, checkpoints[request.param])


def circle(ids: Sequence[int], begin: int, end: int) -> list[int]:
    return [ids[n % len(ids)] for n in range(begin, end)]


Ask = tuple[Prompt, GenerateParams]


async def answers(urls: Sequence[str], model: str, ensembles: Sequence[bool], asked: Sequence[Ask]) -> list[list[str]]:
    """The texts of each question, by every url, through generator or ensemble, streamed and whole, all at once."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(AsyncClient(url, model=model, ensemble=ensemble))
            for url in urls
            for ensemble in ensembles
        ]

        async def one(question: Ask) -> list[str]:
            routes = [route(client, *question) for client in clients for route in (streamed, whole)]
            return list(await asyncio.gather(*routes))

        return await asyncio.gather(*map(one, asked))


async def streamed(client: AsyncClient, prompt: Prompt, params: GenerateParams) -> str:
    return "".join([chunk.text async for chunk in client.stream(prompt, params)])


async def whole(client: AsyncClient, prompt: Prompt, params: GenerateParams) -> str:
    answer: Completion = await client.generate(prompt, params)
    return answer.text


def check(found: list[list[str]], expected: list[str]) -> None:
    assert [sorted(set(texts)) for texts in found] == [[text] for text in expected]


@crowds
@given(prompts=st.lists(st.tuples(ids_of_any_token, st.integers(1, 60)), min_size=12, max_size=12))
def test_every_route_says_what_the_tokens_say(
    tiny_server: ServerUnderTest, words: Words, prompts: list[tuple[list[int], int]]
) -> None:
    asked: list[Ask] = []
    expected = []
    for numbers, count in prompts:
        text = words.text(words.ids(numbers))
        asked.append((text, GenerateParams(max_tokens=count)))
        expected.append(words.text(circle(words.tokenizer.encode(text, special_tokens=True), 0, count)))
    urls = (tiny_server.grpc_url, tiny_server.http_url)
    check(asyncio.run(answers(urls, words.model, (False, True), asked)), expected)


@crowds
@given(
    prompts=st.lists(st.tuples(ids_of_any_token, st.integers(0, 99), st.integers(1, 4)), min_size=12, max_size=12),
)
def test_a_stop_word_that_ends_inside_a_token_cuts_alike(
    tiny_server: ServerUnderTest, words: Words, prompts: list[tuple[list[int], int, int]]
) -> None:
    asked: list[Ask] = []
    expected = []
    for numbers, place, length in prompts:
        text = words.text(words.ids(numbers))
        ids = circle(words.tokenizer.encode(text, special_tokens=True), 0, 60)
        full = words.text(ids)
        end = words.inside_a_token(ids, place)
        word = full[max(0, end - length) : end]
        asked.append((text, GenerateParams(max_tokens=60, stop_words=[word])))
        expected.append(full[: full.index(word)])
    urls = (tiny_server.grpc_url, tiny_server.http_url)
    check(asyncio.run(answers(urls, words.model, (False, True), asked)), expected)


@crowds
@given(prompts=st.lists(st.tuples(ids_of_any_token, st.integers(1, 60)), min_size=24, max_size=24))
def test_any_tokens_through_the_generator(
    tiny_server: ServerUnderTest, words: Words, prompts: list[tuple[list[int], int]]
) -> None:
    """Also those that no text has: half a character, a broken one."""
    asked: list[Ask] = [(words.ids(numbers), GenerateParams(max_tokens=count)) for numbers, count in prompts]
    expected = [words.text(circle(words.ids(numbers), 0, count)) for numbers, count in prompts]
    check(asyncio.run(answers((tiny_server.grpc_url,), words.model, (False,), asked)), expected)


@crowds
@given(prompts=st.lists(st.tuples(ids_of_any_token, ids_of_any_token), min_size=12, max_size=12))
def test_resumed_after_any_tokens_generator_and_ensemble_go_on_alike(
    tiny_server: ServerUnderTest, words: Words, prompts: list[tuple[list[int], list[int]]]
) -> None:
    """The tokens before may end in the middle of a character, which the first chunk then completes."""
    asked: list[Ask] = []
    expected = []
    for numbers, before in prompts:
        text, made = words.text(words.ids(numbers)), words.ids(before)
        asked.append((text, GenerateParams(max_tokens=len(made) + 20, resume_ids=made)))
        new = circle(words.tokenizer.encode(text, special_tokens=True), len(made), len(made) + 20)
        expected.append(words.text([*made, *new])[words.whole_characters(made) :])
    check(asyncio.run(answers((tiny_server.grpc_url,), words.model, (False, True), asked)), expected)
