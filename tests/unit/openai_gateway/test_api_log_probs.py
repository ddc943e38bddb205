"""Log-probs in OpenAI's two shapes: characters in parts, prompts that are told, alternatives."""

from __future__ import annotations

from typing import Any

import pytest

from scripted_upstream import Step
from tests.unit.openai_gateway.api import api, events_of, run
from triton_llm_client import Chunk
from triton_llm_client.log_probs import Alternative, TokenText

# "a", then a snowman in two tokens, then "é!" as one.
A = TokenText(1, "a", b"a")
SNOW, MAN = TokenText(2, "\ufffd", b"\xe2\x98"), TokenText(3, "\ufffd", b"\x83")
E = TokenText(4, "é!", "é!".encode())
END = TokenText(9, "", b"")  # a special one
OTHER = Alternative(8, "b", -1.5, b"b")
PART = Alternative(2, "\ufffd", -0.5, b"\xe2\x98")


def answer(*, prompt: dict[str, Any] | None = None, begin: str = "") -> list[Step]:
    """``☃`` comes with both its tokens."""
    top_a, top_snow = (Alternative(1, "a", -0.25, b"a"), OTHER), (PART, OTHER)
    return [
        Chunk(f"{begin}a", (1,), log_probs=(-0.25,), tokens=(A,), top_log_probs=(top_a,), **(prompt or {})),
        Chunk("☃", (2, 3), log_probs=(-0.5, -0.0), tokens=(SNOW, MAN), top_log_probs=(top_snow, ())),
        Chunk(
            "é!",
            (4, 9),
            0,
            "stop",
            input_tokens=2,
            output_tokens=5,
            log_probs=(-2.0, -0.125),
            tokens=(E, END),
            top_log_probs=((), ()),
        ),
    ]


PROMPT: dict[str, Any] = {
    "prompt_tokens": (TokenText(6, "hé", "hé".encode()), TokenText(7, " y", b" y"), TokenText(5, "o", b"o")),
    "prompt_log_probs": (-3.0, -1.0),
    "prompt_top_log_probs": ((OTHER,), (Alternative(5, "o", -0.75, b"o"),)),
}

CONTENT = [
    {
        "token": "a",
        "logprob": -0.25,
        "bytes": [97],
        "top_logprobs": [
            {"token": "a", "logprob": -0.25, "bytes": [97]},
            {"token": "b", "logprob": -1.5, "bytes": [98]},
        ],
    },
    {
        "token": "\ufffd",
        "logprob": -0.5,
        "bytes": [0xE2, 0x98],
        "top_logprobs": [
            {"token": "\ufffd", "logprob": -0.5, "bytes": [0xE2, 0x98]},
            {"token": "b", "logprob": -1.5, "bytes": [98]},
        ],
    },
    {"token": "\ufffd", "logprob": -0.0, "bytes": [0x83], "top_logprobs": []},
    {"token": "é!", "logprob": -2.0, "bytes": list("é!".encode()), "top_logprobs": []},
    {"token": "", "logprob": -0.125, "bytes": [], "top_logprobs": []},
]


@pytest.mark.parametrize("streams", [False, True])
def test_a_chats_tokens_have_their_bytes(streams: bool) -> None:
    async def work() -> None:
        async with api(answer()) as gateway:
            told = await gateway.chat(logprobs=True, top_logprobs=2, stream=streams)
            if streams:
                choices = [choice for event in events_of(told) for choice in event["choices"]]
                found = [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]
            else:
                (choice,) = told.json()["choices"]
                found = choice["logprobs"]["content"]
                assert bytes(b for entry in found for b in entry["bytes"]).decode() == choice["message"]["content"]
            assert found == CONTENT

    run(work)


def joined(events: list[dict[str, Any]]) -> dict[str, Any]:
    told = [choice["logprobs"] for event in events for choice in event["choices"] if choice["logprobs"]]
    return {name: [item for part in told for item in part[name] or ()] for name in told[0]}


@pytest.mark.parametrize("streams", [False, True])
def test_a_completions_tokens_have_their_places(streams: bool) -> None:
    async def work() -> None:
        async with api(answer()) as gateway:
            told = await gateway.complete(logprobs=2, stream=streams)
            found = joined(events_of(told)) if streams else told.json()["choices"][0]["logprobs"]
            text = "a☃é!"
            assert found["tokens"] == ["a", r"bytes:\xe2\x98", r"bytes:\x83", "é!", ""]
            assert found["token_logprobs"] == [-0.25, -0.5, -0.0, -2.0, -0.125]
            assert found["text_offset"] == [0, 1, 1, 2, len(text)]
            assert found["top_logprobs"][0] == {"a": -0.25, "b": -1.5}
            assert found["top_logprobs"][1] == {r"bytes:\xe2\x98": -0.5, "b": -1.5}

    run(work)


@pytest.mark.parametrize("streams", [False, True])
def test_an_echo_tells_the_prompts_tokens_first(streams: bool) -> None:
    async def work() -> None:
        async with api(answer(prompt=PROMPT, begin="hé yo")) as gateway:
            told = await gateway.complete(prompt="hé yo", echo=True, logprobs=1, stream=streams)
            if streams:
                events = events_of(told)
                found, text = joined(events), "".join(c["text"] for e in events for c in e["choices"])
            else:
                (choice,) = told.json()["choices"]
                found, text = choice["logprobs"], choice["text"]
            assert text == "hé yoa☃é!"
            assert found["tokens"][:4] == ["hé", " y", "o", "a"]
            assert found["token_logprobs"][:4] == [None, -3.0, -1.0, -0.25]
            assert found["text_offset"] == [0, 2, 4, 5, 6, 6, 7, 9]
            assert found["top_logprobs"][0] is None
            assert found["top_logprobs"][1] == {"b": -1.5, " y": -3.0}
            assert found["top_logprobs"][2] == {"o": -1.0}, "its own number holds"

    run(work)


def test_max_tokens_0_tells_the_prompt_alone() -> None:
    """What lm-evaluation-harness asks; the lists are as long as the prompt."""

    async def work() -> None:
        nothing: list[Step] = [Chunk("hé yo", (), 0, "length", input_tokens=3, output_tokens=0, **PROMPT)]
        async with api(nothing) as gateway:
            told = (await gateway.complete(prompt=[6, 7, 5], echo=True, logprobs=1, max_tokens=0)).json()
            (choice,) = told["choices"]
            assert (choice["text"], choice["finish_reason"]) == ("hé yo", "length")
            assert choice["logprobs"]["token_logprobs"] == [None, -3.0, -1.0]
            assert choice["logprobs"]["tokens"] == ["hé", " y", "o"]
            assert told["usage"] == {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
            assert gateway.asked.tensors["input_ids"] == [6, 7, 5]

    run(work)


def test_each_answer_to_an_echoed_prompt_tells_it() -> None:
    async def work() -> None:
        steps: list[Step] = [
            Chunk("hé yo", (1,), 0, "stop", output_tokens=1, log_probs=(-1.0,), tokens=(A,), **PROMPT),
            Chunk("hé yo", (1,), 1, "stop", 3, output_tokens=1, log_probs=(-2.0,), tokens=(A,)),
        ]
        async with api(steps) as gateway:
            told = (await gateway.complete(prompt="hé yo", echo=True, logprobs=0, n=2)).json()
            found = [choice["logprobs"]["token_logprobs"] for choice in told["choices"]]
            assert found == [[None, -3.0, -1.0, -1.0], [None, -3.0, -1.0, -2.0]]

    run(work)
