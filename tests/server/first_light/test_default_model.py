"""The default model answers sensibly, word by word."""

from __future__ import annotations

import json

import httpx

from server_under_test import ServerUnderTest
from triton_llm_client import Client, GenerateParams

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def test_the_capital_of_france_is_paris(default_server: ServerUnderTest) -> None:
    with Client(default_server.grpc_url) as client:
        answer = client.generate(QUESTION, GenerateParams(max_tokens=32))
    assert "Paris" in answer.text
    assert answer.finish_reason == "stop"


def test_the_readmes_prompt_streams_word_by_word(default_server: ServerUnderTest) -> None:
    url = f"{default_server.http_url}/v2/models/smollm2-generator/generate_stream"
    body = {"text_input": "The capital of France is", "max_tokens": 24, "stream": True}
    with httpx.stream("POST", url, json=body, timeout=60) as response:
        events = [json.loads(line[5:]) for line in response.iter_lines() if line.startswith("data:")]
    texts = [event["text_output"] for event in events]
    assert len(texts) > 12
    assert "".join(texts).startswith(" Paris")
    assert events[-1]["finish_reason"] == "length"
    assert [event for event in events[:-1] if "finish_reason" in event] == []


def test_one_prompt_gives_one_text_over_every_route(default_server: ServerUnderTest) -> None:
    params = GenerateParams(max_tokens=24)
    texts = []
    for url in (default_server.grpc_url, default_server.http_url):
        with Client(url) as client:
            texts.append(client.generate("Bread is made of", params).text)
            texts.append("".join(chunk.text for chunk in client.stream("Bread is made of", params)))
    assert len(set(texts)) == 1
    assert texts[0]
