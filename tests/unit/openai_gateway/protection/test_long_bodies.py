"""Long bodies: bounded in values before they are parsed, and parsed beside the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openai_gateway import body as body_module
from openai_gateway.protection import json_size
from openai_gateway.protection.json_size import check_json_size
from python_llm.errors import InvalidRequest
from tests.unit.openai_gateway.protection.conftest import guarded

WAIT = 60.0  # only catches hangs
TEXTS = st.text(st.sampled_from('a"\\{[,]} \n\u00e9'), max_size=12)
VALUES = st.recursive(
    st.none() | st.integers(0, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)


def containers(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + sum(map(containers, value)) if isinstance(value, list) else 0


def commas(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return max(0, len(value) - 1) + sum(map(commas, value)) if isinstance(value, list) else 0


@given(VALUES, st.booleans(), st.integers(0, 20), st.integers(1, 20))
def test_the_count_is_the_parsers_whatever_stands_in_strings(
    value: Any, as_ascii: bool, most_containers: int, most_values: int
) -> None:
    raw = json.dumps(value, ensure_ascii=as_ascii).encode()
    fits = containers(value) <= most_containers and commas(value) < most_values
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "_MOST_CONTAINERS", most_containers)
        patch.setattr(json_size, "_MOST_VALUES", most_values)
        try:
            check_json_size(raw)
        except InvalidRequest:
            refused = True
        else:
            refused = False
    strings = raw.replace(rb"\\", b"").replace(rb"\"", b"").count(b'"')
    assert refused == (not fits or strings > 4 * most_values)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"model": "m", "prompt": [1] * 300_000}, "more than 262144 JSON values"),
        ({"model": "m", "prompt": [[]] * 20_000}, "more than 8192 JSON objects and arrays"),
        ({"model": "m", "prompt": [""] * 600_000}, "more than 262144 JSON values"),
    ],
)
def test_too_many_values_are_refused_with_the_number(value: Any, said: str) -> None:
    async def body() -> None:
        async with guarded() as gateway:
            answer = await gateway.client.post("/v1/completions", json=value)
            assert answer.status_code == 413
            assert said in answer.json()["error"]["message"]

    asyncio.run(body())


def test_eight_megabytes_of_text_are_a_prompt_like_another() -> None:
    async def body() -> None:
        async with guarded() as gateway:
            assert (await gateway.ask(prompt='a "b", {[\\' * 2**19)).status_code == 200

    asyncio.run(body())


def test_while_a_long_body_is_parsed_health_is_answered_and_short_requests_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parser waits for a signal that comes only when the others were answered: on the loop it would never come."""
    parsing, answered = threading.Event(), threading.Event()
    parse = body_module.parse_body

    def held(raw: bytes, kind: Any) -> Any:
        if len(raw) > 100_000:
            parsing.set()
            assert answered.wait(WAIT)
        return parse(raw, kind)

    monkeypatch.setattr(body_module, "parse_body", held)

    async def body() -> None:
        async with guarded() as gateway:
            long = asyncio.create_task(gateway.ask(prompt="x" * 8 * 2**20))
            assert await asyncio.to_thread(parsing.wait, WAIT)
            assert (await gateway.client.get("/health/live")).status_code == 200
            assert (await gateway.ask(stream=True)).status_code == 200
            assert not long.done()
            answered.set()
            assert (await long).status_code == 200

    asyncio.run(body())
