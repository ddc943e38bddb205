"""The ensemble says what its generator says, byte for byte, whoever races for its chunks."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from python_llm.errors import InvalidRequest
from server_under_test import ServerUnderTest
from triton_llm_client import AsyncClient, Client, GenerateParams

PROMPTS = [f"The tide of day {number} went out" for number in range(24)]
PARAMS = GenerateParams(max_tokens=60, ignore_eos=True)


def texts(url: str, *, ensemble: bool, params: GenerateParams = PARAMS) -> list[str]:
    """Each prompt's text, streamed, all at once."""

    async def run() -> list[str]:
        async with AsyncClient(url, model="tiny", ensemble=ensemble) as client:

            async def one(prompt: str) -> str:
                return "".join([chunk.text async for chunk in client.stream(prompt, params)])

            return await asyncio.gather(*(one(prompt) for prompt in PROMPTS))

    return asyncio.run(run())


def test_streams_of_the_ensemble_equal_the_generators(tiny_server: ServerUnderTest) -> None:
    expected = texts(tiny_server.grpc_url, ensemble=False)
    assert texts(tiny_server.grpc_url, ensemble=True) == expected
    assert texts(tiny_server.http_url, ensemble=True) == expected
    assert len(set(expected)) > 12


def test_one_prompt_gives_one_text_over_every_route(tiny_server: ServerUnderTest) -> None:
    found = set()
    for url in (tiny_server.grpc_url, tiny_server.http_url):
        for ensemble in (False, True):
            with Client(url, model="tiny", ensemble=ensemble) as client:
                whole = client.generate(PROMPTS[0], PARAMS)
                chunks = list(client.stream(PROMPTS[0], PARAMS))
            found |= {whole.text, "".join(chunk.text for chunk in chunks)}
            assert whole.output_ids == tuple(i for chunk in chunks for i in chunk.output_ids)
            assert (whole.finish_reason, chunks[-1].finish_reason) == ("length", "length")
            assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert len(found) == 1


def test_a_stop_word_inside_a_token_cuts_both_alike(tiny_server: ServerUnderTest) -> None:
    (whole, *_) = texts(tiny_server.grpc_url, ensemble=False)
    for begin in range(4, len(whole) - 3, 7):
        params = GenerateParams(max_tokens=60, ignore_eos=True, stop_words=(whole[begin : begin + 3],))
        found = []
        for ensemble in (False, True):
            with Client(tiny_server.grpc_url, model="tiny", ensemble=ensemble) as client:
                found.append("".join(chunk.text for chunk in client.stream(PROMPTS[0], params)))
        assert found == [whole[: whole.index(whole[begin : begin + 3])]] * 2


def test_messages_go_through_the_checkpoints_template(tiny_server: ServerUnderTest) -> None:
    answers = []
    for ensemble in (False, True):
        with Client(tiny_server.grpc_url, model="tiny", ensemble=ensemble) as client:
            answers.append(client.generate([{"role": "user", "content": "Where is the boat?"}], PARAMS))
    assert answers[0].text == answers[1].text
    assert answers[0].input_tokens == answers[1].input_tokens


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"text_input": "", "max_tokens": 4}, "empty_prompt"),
        ({"text_input": "x", "messages": '[{"role": "user", "content": "y"}]'}, "one_prompt"),
        ({"text_input": "x", "max_tokens": 0}, "max_tokens_too_small"),
        ({"text_input": "x", "max_tokens": 9999}, "max_tokens_too_large"),
        ({"text_input": "x", "max_tokns": 9}, "unknown_parameter"),
    ],
)
def test_a_steps_error_is_the_ensembles(tiny_server: ServerUnderTest, body: dict[str, object], reason: str) -> None:
    answer = httpx.post(f"{tiny_server.http_url}/v2/models/tiny/generate", json=body, timeout=60)
    assert answer.status_code == 400
    assert f"[INVALID_ARG {reason}] " in answer.json()["error"]


def test_a_prompt_of_ids_is_not_for_the_ensemble(tiny_server: ServerUnderTest) -> None:
    with Client(tiny_server.grpc_url, model="tiny", ensemble=True) as client, pytest.raises(InvalidRequest):
        client.generate([1, 2, 3])
