"""Tools through the API: who may be asked, what is sent, and what calls look like in an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripted_upstream import words
from tests.unit.openai_gateway.api import api, events_of, run

ADD = {"type": "function", "function": {"name": "add", "description": "sum", "parameters": {"type": "object"}}}
SUB = {"type": "function", "function": {"name": "sub", "parameters": None}}
CALL = ("I ", "add.", "<tool", '_call>{"name": "add", "argu', 'ments": {"x": [1,', " 2]}}", "</tool_call>")
TWO = (
    '<tool_call>{"name": "add", "arguments": {}}</tool_call>\n<tool_call>{"name": "sub", "arguments": {}}</tool_call>',
)


def joined(events: list[dict[str, Any]]) -> dict[str, Any]:
    """A message out of a stream's deltas, as OpenAI's clients add them up."""
    message: dict[str, Any] = {"content": "", "tool_calls": {}}
    for delta in (choice["delta"] for event in events for choice in event["choices"]):
        message["content"] += delta.get("content") or ""
        for part in delta.get("tool_calls", ()):
            call = message["tool_calls"].setdefault(part["index"], {"arguments": ""})
            call["arguments"] += part["function"].get("arguments", "")
            call |= {"name": part["function"]["name"], "id": part["id"]} if "id" in part else {}
    return message


def test_tools_go_with_the_messages_and_a_call_comes_back() -> None:
    async def work() -> None:
        async with api(words(*CALL)) as gateway:
            (choice,) = (await gateway.chat(tools=[ADD, SUB], tool_choice="auto")).json()["choices"]
            sent = json.loads(gateway.asked.tensors["messages"][0])
            assert sent["messages"] == [{"role": "user", "content": "hi"}]
            assert sent["tools"] == [ADD, {"type": "function", "function": {"name": "sub"}}]
            assert "guided_decoding_guide" not in gateway.asked.tensors
            assert choice["finish_reason"] == "tool_calls"
            assert choice["message"]["content"] == "I add."
            (call,) = choice["message"]["tool_calls"]
            assert call.pop("id").startswith("call_")
            assert call == {"type": "function", "function": {"name": "add", "arguments": '{"x": [1, 2]}'}}

    run(work)


def test_a_call_streams_as_it_comes() -> None:
    async def work() -> None:
        async with api(words(*CALL)) as gateway:
            events = events_of(await gateway.chat(tools=[ADD], stream=True))
            message = joined(events)
            assert message["content"] == "I add."
            assert [(c["name"], c["arguments"]) for c in message["tool_calls"].values()] == [("add", '{"x": [1, 2]}')]
            assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"

    run(work)


@pytest.mark.parametrize(("parallel", "names"), [(None, ["add", "sub"]), (True, ["add", "sub"]), (False, ["add"])])
def test_calls_side_by_side_are_told_unless_one_was_asked_for(parallel: bool | None, names: list[str]) -> None:
    async def work() -> None:
        async with api(words(*TWO)) as gateway:
            fields = {"tools": [ADD, SUB], "parallel_tool_calls": parallel}
            (choice,) = (await gateway.chat(**fields)).json()["choices"]
            assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == names
            assert choice["message"]["content"] is None
            events = events_of(await gateway.chat(**fields, stream=True))
            assert [call["name"] for call in joined(events)["tool_calls"].values()] == names

    run(work)


def test_a_function_that_must_be_called_is_guided_by_its_schema() -> None:
    async def work() -> None:
        async with api(words('{"x"', ": 1}")) as gateway:
            choose = {"type": "function", "function": {"name": "add"}}
            (choice,) = (await gateway.chat(tools=[ADD, SUB], tool_choice=choose)).json()["choices"]
            assert gateway.asked.tensors["guided_decoding_guide_type"] == ["json_schema"]
            assert json.loads(gateway.asked.tensors["guided_decoding_guide"][0]) == {"type": "object"}
            (call,) = choice["message"]["tool_calls"]
            assert call["function"] == {"name": "add", "arguments": '{"x": 1}'}
            assert choice["finish_reason"] == "stop", "as OpenAI has it"

    run(work)


def test_some_function_that_must_be_called_is_guided_by_all_schemas() -> None:
    async def work() -> None:
        async with api(words('{"name": "sub", "arguments": {}}')) as gateway:
            (choice,) = (await gateway.chat(tools=[ADD, SUB], tool_choice="required")).json()["choices"]
            guide = json.loads(gateway.asked.tensors["guided_decoding_guide"][0])
            assert {"add", "sub"} == {one["properties"]["name"]["const"] for one in guide["anyOf"]}
            assert choice["message"]["tool_calls"][0]["function"] == {"name": "sub", "arguments": "{}"}
            assert choice["finish_reason"] == "tool_calls"

    run(work)


def test_tools_that_may_not_be_called_are_not_told_to_the_model() -> None:
    async def work() -> None:
        async with api(words(*CALL)) as gateway:
            (choice,) = (await gateway.chat(tools=[ADD], tool_choice="none", model="plain")).json()["choices"]
            assert json.loads(gateway.asked.tensors["messages"][0]) == [{"role": "user", "content": "hi"}]
            assert choice["message"]["content"] == "".join(CALL)
            assert choice["finish_reason"] == "stop"

    run(work)
