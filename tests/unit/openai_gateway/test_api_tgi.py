"""Text Generation Inference's routes, as its clients read them."""

from __future__ import annotations

import json
from typing import Any

from openai_gateway.upstream import ModelCard
from python_llm.errors import InvalidRequest, Unavailable
from scripted_upstream import Step
from tests.unit.openai_gateway.api import Api, api, run
from triton_llm_client import Chunk
from triton_llm_client.log_probs import TokenText

ONE = (ModelCard("m", context_length=64),)
ANSWER: list[Step] = [
    Chunk("a", (1,), log_probs=(-0.25,), tokens=(TokenText(1, "a", b"a"),)),
    Chunk(
        "☃",
        (2, 3),
        0,
        "stop",
        4,
        3,
        7,
        "☃",
        log_probs=(-0.5, -1.0),
        tokens=(TokenText(2, "\ufffd", b"\xe2\x98"), TokenText(3, "\ufffd", b"\x83")),
    ),
]


async def generate(gateway: Api, path: str = "/generate", **body: Any) -> Any:
    return await gateway.client.post(path, json={"inputs": "hi", **body})


def test_an_answer_at_once() -> None:
    async def work() -> None:
        async with api(ANSWER, cards=ONE) as gateway:
            assert (await generate(gateway)).json() == {"generated_text": "a☃"}
            assert (await generate(gateway, "/")).json() == [{"generated_text": "a☃"}]
            asked = {"details": True, "max_new_tokens": 9, "stop": ["☃"], "seed": 7}
            told = (await generate(gateway, parameters=asked)).json()["details"]
            assert told == {
                "finish_reason": "stop_sequence",
                "generated_tokens": 3,
                "seed": 7,
                "prefill": [],
                "tokens": [
                    {"id": 1, "text": "a", "logprob": -0.25, "special": False},
                    {"id": 2, "text": "", "logprob": -0.5, "special": False},
                    {"id": 3, "text": "☃", "logprob": -1.0, "special": False},
                ],
            }
            sent = gateway.asked.tensors
            assert (sent["text_input"], sent["max_tokens"], sent["stop_words"]) == (["hi"], [9], ["☃"])
            assert "temperature" not in sent, "greedy, as TGI is without do_sample"

    run(work)


def test_a_stream_ends_with_its_whole_text_and_has_no_mark() -> None:
    async def work() -> None:
        async with api(ANSWER, cards=ONE) as gateway:
            for path, more in (("/generate_stream", {}), ("/", {"stream": True})):
                answer = await generate(gateway, path, **more)
                assert answer.headers["content-type"].startswith("text/event-stream")
                events = [json.loads(line[5:]) for line in answer.text.split("\n\n") if line]
                assert [event["token"]["text"] for event in events] == ["a", "", "☃"]
                assert [event["generated_text"] for event in events] == [None, None, "a☃"]
                assert [event["index"] for event in events] == [1, 2, 3]
                assert events[-1]["details"] == {
                    "finish_reason": "eos_token",
                    "generated_tokens": 3,
                    "seed": 7,
                    "input_length": 4,
                }

    run(work)


def test_info_tells_the_model_and_its_bounds() -> None:
    async def work() -> None:
        async with api(cards=ONE) as gateway:
            told = (await gateway.client.get("/info")).json()
            assert (told["model_id"], told["max_total_tokens"], told["max_input_tokens"]) == ("m", 64, 63)
        async with api(cards=(ModelCard("m"), ModelCard("n"))) as gateway:
            answer = await generate(gateway)
            assert answer.status_code == 422
            assert "several are served: m, n" in answer.json()["error"]
            assert (await generate(gateway, model="n")).status_code == 200

    run(work)


def test_refusals_have_tgis_shape() -> None:
    async def work() -> None:
        too_long = InvalidRequest("prompt_too_long", "prompt: at least 99 tokens: shorten the prompt.")
        for failure, status, kind in (
            (too_long, 422, "validation"),
            (Unavailable("queue_full", "queue: full; retry after 1 s."), 429, "overloaded"),
        ):
            async with api([failure], cards=ONE) as gateway:
                for path in ("/generate", "/generate_stream"):
                    answer = await generate(gateway, path)
                    assert answer.status_code == status
                    assert answer.json() == {"error": failure.text, "error_type": kind}
        async with api(cards=ONE) as gateway:
            for parameters, said in (
                ({"best_of": 2}, "best_of 2"),
                ({"truncate": 5}, "truncate 5"),
                ({"watermark": True}, "watermark True"),
                ({"typical_p": 0.5}, "typical_p 0.5"),
                ({"grammar": {"type": "cfg"}}, "grammar"),
                ({"max_tokens": 5}, "parameters.max_tokens"),
            ):
                answer = await generate(gateway, parameters=parameters)
                assert answer.status_code == 422, parameters
                assert said in answer.json()["error"]

    run(work)
