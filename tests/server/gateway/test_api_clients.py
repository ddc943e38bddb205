"""The clients that people have, unchanged, against the gateway in front of a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import httpx
import openai
import pytest
from huggingface_hub import InferenceClient
from langchain_openai import ChatOpenAI
from openai.types.chat import ChatCompletionFunctionToolParam
from pydantic import BaseModel, ConfigDict, SecretStr

from gateway_under_test import GatewayUnderTest
from generator_status import generator_answer
from prometheus_text import scrape
from server_under_test import ServerUnderTest
from tests.server.gateway.conftest import WithTools
from triton_llm_client import Client, GenerateParams

pytestmark = pytest.mark.usefixtures("no_internet")

PROMPT = "The ferry left the small harbour"
HELLO: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello there"}]
GREEDY: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 24}


class Weather(BaseModel):
    """The weather of a city. It is closed: a random model would add properties until its tokens are spent."""

    model_config = ConfigDict(extra="forbid")
    city: Literal["Paris", "Rome"]
    warm: bool


TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "weather", "parameters": Weather.model_json_schema()},
}
ONE_CALL = (
    r'Look: <tool_call>\{"name": "weather", "arguments": \{"city": "(Paris|Rome)", "warm": (true|false)\}\}</tool_call>'
)


@pytest.fixture
def client(with_tools: WithTools) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=with_tools.openai_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def direct(with_tools: WithTools) -> Iterator[Client]:
    """The generator itself."""
    with Client(with_tools.server.grpc_url, model="tiny") as client:
        yield client


def test_openai_models_tell_what_the_generators_config_says(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    told = model.model_dump()
    assert (told["id"], told["max_model_len"], told["tool_calls"]) == ("tiny", 2048, "hermes")
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match="known models: tiny"):
        client.models.retrieve("gpt-4")


def test_openai_chat_streamed_and_not_is_the_generators_answer(client: openai.OpenAI, direct: Client) -> None:
    expected = direct.generate(HELLO, GenerateParams(max_tokens=24, temperature=0))
    whole = client.chat.completions.create(messages=HELLO, **GREEDY)
    assert whole.choices[0].message.content == expected.text
    assert whole.choices[0].finish_reason == expected.finish_reason
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (expected.input_tokens, expected.output_tokens)
    parts = list(
        client.chat.completions.create(messages=HELLO, stream=True, stream_options={"include_usage": True}, **GREEDY)
    )
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == expected.text
    assert parts[0].choices[0].delta.role == "assistant"
    assert parts[-1].usage == whole.usage
    assert len(parts) > 5, "it came in pieces"


def test_openai_chat_log_probs_are_the_generators(client: openai.OpenAI, direct: Client) -> None:
    params = GenerateParams(max_tokens=24, temperature=0, return_log_probs=True, top_log_probs=2)
    expected = direct.generate(HELLO, params)
    (choice,) = client.chat.completions.create(messages=HELLO, logprobs=True, top_logprobs=2, **GREEDY).choices
    assert choice.logprobs is not None
    told = choice.logprobs.content
    assert told is not None
    assert [one.logprob for one in told] == list(expected.log_probs)
    assert [[top.logprob for top in one.top_logprobs] for one in told] == [
        [top.log_prob for top in tops] for tops in expected.top_log_probs
    ]
    raw = bytes(byte for one in told for byte in one.bytes or ())
    assert raw.decode(errors="replace") == choice.message.content


def test_openai_completions_of_texts_and_token_ids(client: openai.OpenAI, direct: Client) -> None:
    prompts = [PROMPT, "A good server answers", "When the river rises"]
    expected = [direct.generate(prompt, GenerateParams(max_tokens=24, temperature=0)).text for prompt in prompts]
    told = client.completions.create(prompt=prompts, **GREEDY)
    assert [choice.text for choice in told.choices] == expected
    echoed = client.completions.create(prompt=prompts, echo=True, **GREEDY)
    assert [choice.text for choice in echoed.choices] == [p + t for p, t in zip(prompts, expected, strict=True)]
    ids = [prompt_ids(direct, prompt) for prompt in prompts]
    assert [choice.text for choice in client.completions.create(prompt=ids, **GREEDY).choices] == expected
    sampled = client.completions.create(prompt=prompts, n=2, seed=5, model="tiny", max_tokens=8, stream=True)
    texts: dict[int, str] = {}
    for part in sampled:
        for piece in part.choices:
            texts[piece.index] = texts.get(piece.index, "") + piece.text
    again = client.completions.create(prompt=prompts, n=2, seed=5, model="tiny", max_tokens=8)
    assert texts == {choice.index: choice.text for choice in again.choices}
    assert sorted(texts) == list(range(6))


def prompt_ids(direct: Client, prompt: str) -> list[int]:
    params = GenerateParams(max_tokens=1, return_prompt_log_probs=True)
    return [token.id for token in direct.generate(prompt, params).prompt_tokens]


def test_openai_tools(client: openai.OpenAI) -> None:
    """The model is random: a guide has it write what a trained one writes by itself."""
    guide = {"guided_decoding_guide_type": "regex", "guided_decoding_guide": ONE_CALL}
    for choose in ("auto", None):
        fields: dict[str, Any] = {} if choose is None else {"tool_choice": choose}
        (choice,) = client.chat.completions.create(
            model="tiny", messages=HELLO, tools=[TOOL], max_tokens=200, extra_body=guide, **fields
        ).choices
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Look:")
        assert choice.message.tool_calls is not None
        (call,) = choice.message.tool_calls
        assert call.type == "function"
        assert call.function.name == "weather"
        Weather.model_validate_json(call.function.arguments)
    with client.chat.completions.stream(
        model="tiny", messages=HELLO, tools=[TOOL], max_tokens=200, extra_body=guide
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls is not None
    Weather.model_validate_json(message.tool_calls[0].function.arguments)
    said: Any = [*HELLO, choice.message, {"role": "tool", "tool_call_id": call.id, "content": "20 degrees"}]
    assert client.chat.completions.create(messages=said, tools=[TOOL], **GREEDY).choices[0].message.content


@pytest.mark.parametrize("choose", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_openai_tools_that_must_be_called(client: openai.OpenAI, choose: Any) -> None:
    (choice,) = client.chat.completions.create(
        model="tiny", messages=HELLO, tools=[TOOL], tool_choice=choose, max_tokens=300
    ).choices
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert call.function.name == "weather"
    Weather.model_validate_json(call.function.arguments)


def test_openai_structured_outputs(client: openai.OpenAI) -> None:
    (choice,) = client.chat.completions.parse(
        model="tiny", messages=HELLO, response_format=Weather, max_tokens=300
    ).choices
    assert isinstance(choice.message.parsed, Weather)
    (choice2,) = client.chat.completions.create(
        model="tiny", messages=HELLO, response_format={"type": "json_object"}, max_tokens=300
    ).choices
    if choice2.finish_reason == "stop":
        json.loads(choice2.message.content or "")
    assert (choice2.message.content or "").lstrip().startswith("{")


def test_openai_errors_are_its_exceptions(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="tiny", prompt="word " * 8000)
    assert refused.value.code == "context_length_exceeded"
    assert "2048" in str(refused.value)
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="tiny", messages=HELLO, extra_body={"temprature": 1})
    assert refused.value.code == "unknown_parameter"


def test_langchain(with_tools: WithTools) -> None:
    model = ChatOpenAI(
        base_url=with_tools.openai_url,
        api_key=SecretStr("none"),
        model="tiny",
        temperature=0,
        max_completion_tokens=24,
        max_retries=0,
    )
    whole = model.invoke("Hello there")
    assert isinstance(whole.content, str)
    parts = [str(part.content) for part in model.stream("Hello there")]
    assert "".join(parts) == whole.content
    assert len(parts) > 5
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["output_tokens"] == whole.response_metadata["token_usage"]["completion_tokens"]
    longer = model.model_copy(update={"max_tokens": 300})
    assert isinstance(longer.with_structured_output(Weather).invoke("Hello"), Weather)
    called = longer.bind_tools([Weather], tool_choice="Weather", strict=True).invoke("Hello")
    (call,) = called.tool_calls
    Weather.model_validate(call["args"])


def test_huggingface_inference_client(with_tools: WithTools, direct: Client) -> None:
    client = InferenceClient(with_tools.gateway.url, timeout=120)
    expected = direct.generate(PROMPT, GenerateParams(max_tokens=12))
    assert client.text_generation(PROMPT, max_new_tokens=12) == expected.text
    assert "".join(client.text_generation(PROMPT, max_new_tokens=12, stream=True)) == expected.text
    told = client.text_generation(
        PROMPT, max_new_tokens=12, details=True, decoder_input_details=True, return_full_text=True
    )
    assert told.details is not None
    assert told.generated_text == PROMPT + expected.text
    assert [token.id for token in told.details.tokens] == list(expected.output_ids)
    assert [token.id for token in told.details.prefill] == prompt_ids(direct, PROMPT)
    last = list(client.text_generation(PROMPT, max_new_tokens=12, stream=True, details=True))[-1]
    assert last.generated_text == expected.text
    assert last.details is not None
    assert last.details.generated_tokens == 12
    chat = client.chat_completion(HELLO, max_tokens=24, temperature=0)
    assert chat.choices[0].message.content == direct.generate(HELLO, GenerateParams(max_tokens=24, temperature=0)).text


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_lm_evaluation_harness_reads_the_generators_own_log_probs(
    with_tools: WithTools, direct: Client, max_tokens: int
) -> None:
    """Its local-completions protocol: contexts with their continuations as token ids, echoed with log-probs; of each it
    adds up what follows the context, and asks whether the likeliest token was there every time. max_tokens is 1 there.
    """
    contexts = ["The capital of a country is", "Why do bread and beer", "She wrote the numbers"]
    pairs = [
        (prompt_ids(direct, text), prompt_ids(direct, " " + more)) for text in contexts for more in ("not", "both need")
    ]
    body = {
        "model": "tiny",
        "prompt": [context + more for context, more in pairs],
        "temperature": 0,
        "max_tokens": max_tokens,
        "logprobs": 1,
        "seed": 1234,
        "echo": True,
    }
    answer = httpx.post(f"{with_tools.openai_url}/completions", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    choices = sorted(answer.json()["choices"], key=lambda choice: int(choice["index"]))
    for (context, more), choice in zip(pairs, choices, strict=True):
        told = choice["logprobs"]
        end = len(context) + len(more)
        assert len(told["token_logprobs"]) == end + max_tokens
        params = GenerateParams(
            max_tokens=1, temperature=0, return_prompt_log_probs=True, return_log_probs=True, top_log_probs=1
        )
        own = direct.generate(context + more, params)
        log_probs = told["token_logprobs"][len(context) : end]
        assert log_probs == list(own.prompt_log_probs[len(context) - 1 :])
        assert len(log_probs) == len(more)
        tops = told["top_logprobs"][len(context) : end]
        greedy = all(one == max(top.values()) for one, top in zip(log_probs, tops, strict=True))
        likeliest = [top[0].id for top in own.prompt_top_log_probs[len(context) - 1 :]]
        assert greedy == (likeliest == more)


def test_who_leaves_ends_the_request_at_the_generator(with_tools: WithTools) -> None:
    server, gateway = with_tools.server, with_tools.gateway
    cancelled, left = ended_at(server, "cancelled"), left_at(gateway)
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 1900, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{with_tools.openai_url}/completions", json=body, timeout=120) as answer:
        next(answer.iter_lines())

    def idle() -> bool:
        status = generator_answer(server, "tiny-generator", "status")
        return not status["running"] and not status["stats"]["blocks_used"]

    gateway.wait_until(idle, "the request to end")
    gateway.wait_until(lambda: left_at(gateway) == left + 1, "the gateway's count")
    gateway.wait_until(lambda: ended_at(server, "cancelled") == cancelled + 1, "the generator's count")


def left_at(gateway: GatewayUnderTest) -> float:
    return gateway.metric("triton_llm_gateway_requests_total", outcome="left")


def ended_at(server: ServerUnderTest, reason: str) -> float:
    told = scrape(server.metrics_url)
    return told.value("triton_llm_requests_finished_total", model="tiny-generator", finish_reason=reason)
