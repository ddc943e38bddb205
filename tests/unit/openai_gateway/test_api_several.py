"""Several prompts and several answers: which choice is whose."""

from __future__ import annotations

from typing import Any

import pytest

from scripted_upstream import Step, words
from tests.unit.openai_gateway.api import api, events_of, run
from triton_llm_client import Chunk

TWO_ANSWERS: list[Step] = [
    Chunk("a", (1,), 0),
    Chunk("A", (1,), 1),
    Chunk("b", (2,), 0, "stop", output_tokens=2),
    Chunk("B", (2, 3), 1, "length", input_tokens=5, output_tokens=3),
]


def texts_of(events: list[dict[str, Any]]) -> dict[int, str]:
    found: dict[int, str] = {}
    for event in events:
        for choice in event["choices"]:
            text = choice["delta"].get("content", "") if "delta" in choice else choice["text"]
            found[choice["index"]] = found.get(choice["index"], "") + text
    return found


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("one", [{"text_input": ["one"]}]),
        (["one", "two"], [{"text_input": ["one"]}, {"text_input": ["two"]}]),
        ([1, 2, 3], [{"input_ids": [1, 2, 3]}]),
        ([[1, 2], [3]], [{"input_ids": [1, 2]}, {"input_ids": [3]}]),
    ],
)
def test_each_prompt_of_a_list_is_a_choice(prompt: Any, asked: list[dict[str, Any]]) -> None:
    async def work() -> None:
        answers = [words(f"to {number}", prompt_tokens=number + 1) for number in range(len(asked))]
        async with api(*answers) as gateway:
            told = (await gateway.complete(prompt=prompt)).json()
            assert [choice["index"] for choice in told["choices"]] == list(range(len(asked)))
            assert {choice["text"] for choice in told["choices"]} == {f"to {number}" for number in range(len(asked))}
            names = ("text_input", "input_ids")
            came = [{n: v for n, v in one.tensors.items() if n in names} for one in gateway.upstream.asked]
            assert came == asked
            prompts = sum(range(1, len(asked) + 1))
            assert told["usage"] == {
                "prompt_tokens": prompts,
                "completion_tokens": len(asked),
                "total_tokens": prompts + len(asked),
            }
            ids = [one.request_id for one in gateway.upstream.asked]
            assert len(set(ids)) == len(ids)

    run(work)


@pytest.mark.parametrize("streams", [False, True])
def test_n_answers_of_each_prompt_stand_one_prompt_after_the_other(streams: bool) -> None:
    async def work() -> None:
        async with api(TWO_ANSWERS) as gateway:
            answer = await gateway.complete(prompt=["p", "q"], n=2, stream=streams)
            if streams:
                assert texts_of(events_of(answer)) == {0: "ab", 1: "AB", 2: "ab", 3: "AB"}
                return
            told = answer.json()
            assert [(c["index"], c["text"], c["finish_reason"]) for c in told["choices"]] == [
                (0, "ab", "stop"),
                (1, "AB", "length"),
                (2, "ab", "stop"),
                (3, "AB", "length"),
            ]
            assert told["usage"] == {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}

    run(work)


def test_n_answers_of_a_chat() -> None:
    async def work() -> None:
        async with api(TWO_ANSWERS) as gateway:
            told = (await gateway.chat(n=2)).json()
            assert [c["message"]["content"] for c in told["choices"]] == ["ab", "AB"]
            assert [c["finish_reason"] for c in told["choices"]] == ["stop", "length"]
            assert told["usage"]["prompt_tokens"] == 5, "the prompt counts once"
            events = events_of(await gateway.chat(n=2, stream=True))
            roles = [c["index"] for e in events for c in e["choices"] if c["delta"].get("role") == "assistant"]
            assert roles == [0, 1]
            assert texts_of(events) == {0: "ab", 1: "AB"}
            ends = {c["index"]: c["finish_reason"] for e in events for c in e["choices"] if c["finish_reason"]}
            assert ends == {0: "stop", 1: "length"}

    run(work)


def test_many_prompts_are_asked_some_at_a_time_and_answered_in_order() -> None:
    async def work() -> None:
        async with api() as gateway:
            prompts = [str(number) for number in range(100)]
            told = (await gateway.complete(prompt=prompts)).json()
            assert [choice["index"] for choice in told["choices"]] == list(range(100))
            assert [one.tensors["text_input"] for one in gateway.upstream.asked] == [[prompt] for prompt in prompts]

    run(work)
