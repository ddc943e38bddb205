"""The same requests get the same behaviour whatever the engine: streams, stops, cancels, sequences, refusals."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from generator_status import generator_status
from open_streams import grpc_stream
from prometheus_text import scrape
from python_llm.errors import InvalidRequest, NotFound, ServeError, Unsupported
from server_under_test import ServerUnderTest
from triton_llm_client import AsyncClient, Client, Completion, GenerateParams, new_request_id

PROMPT = "The ferry left the small harbour at six in the morning, and the gulls followed it."
# What an engine may lack: then it says so by name, and the others do it.
LACKS: Mapping[str, set[str]] = {
    "echo": {"sequences", "log_probs", "penalties", "guides"},
    "paged": set(),
    "tensorrt": set(),
}
ENGINES = tuple(LACKS)
ASKED = {
    "sequences": GenerateParams(max_tokens=8, num_return_sequences=2, temperature=1.0, seed=3, ignore_eos=True),
    "log_probs": GenerateParams(max_tokens=8, return_log_probs=True, top_log_probs=2, ignore_eos=True),
    "penalties": GenerateParams(max_tokens=8, repetition_penalty=1.5, frequency_penalty=0.5, ignore_eos=True),
    "guides": GenerateParams(max_tokens=8, guided_decoding_guide_type="regex", guided_decoding_guide="[0-9]{3}"),
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["grpc", "http"])
def url(request: pytest.FixtureRequest, server: ServerUnderTest) -> str:
    return server.grpc_url if request.param == "grpc" else server.http_url


@pytest.fixture
def client(server: ServerUnderTest, engine: str) -> Iterator[Client]:
    with Client(server.grpc_url, model=engine) as opened:
        yield opened


def length(tokens: int, **more: Any) -> GenerateParams:
    return GenerateParams(max_tokens=tokens, ignore_eos=True, **more)


def whole(client: Client, tokens: int = 32, **more: Any) -> Completion:
    return client.generate(PROMPT, length(tokens, **more))


def ends(server: ServerUnderTest, engine: str, reason: str) -> float:
    name = "triton_llm_requests_finished_total"
    return scrape(server.metrics_url).value(name, model=f"{engine}-generator", finish_reason=reason)


def test_deltas_add_up_to_the_whole_and_end_once(url: str, engine: str) -> None:
    with Client(url, model=engine) as client:
        expected = whole(client)
        chunks = list(client.stream(PROMPT, length(32)))
        assert "".join(chunk.text for chunk in chunks) == expected.text
        ids = tuple(i for chunk in chunks for i in chunk.output_ids)
        assert ids == expected.output_ids
        assert len(ids) == 32
        assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["length"]
        assert chunks[-1].finish_reason == "length"
        assert len(chunks) > 4
        assert expected.output_tokens == 32
        assert expected.input_tokens
        assert expected.input_tokens == chunks[-1].input_tokens


def test_the_ensemble_and_the_unary_model_say_what_the_generator_says(
    server: ServerUnderTest, client: Client, engine: str
) -> None:
    expected = client.generate(PROMPT, GenerateParams(max_tokens=24)).text
    assert "".join(grpc_stream(server, engine, PROMPT, 24)) == expected
    body = {"text_input": PROMPT, "max_tokens": 24}
    for model in (engine, f"{engine}-unary"):
        answer = httpx.post(f"{server.http_url}/v2/models/{model}/generate", json=body, timeout=120)
        assert answer.status_code == 200, answer.text
        assert answer.json()["text_output"] == expected
        refused = httpx.post(
            f"{server.http_url}/v2/models/{model}/generate", json={**body, "temperature": -1.0}, timeout=120
        )
        assert refused.status_code == 400
        assert "[INVALID_ARG temperature_out_of_range] " in refused.json()["error"]


def test_adapters_are_refused_where_there_are_none(client: Client) -> None:
    with pytest.raises(Unsupported, match="lora_name 'french': no adapter is loaded"):
        client.generate(PROMPT, length(4, lora_name="french"))


def test_words_of_several_tokens_are_taken_or_refused_by_name(client: Client, engine: str) -> None:
    """What they ban is shown in tokens by the engines' own tests: other tokens may spell the same text."""
    asked = length(8, bad_words=["the small harbour at six"])
    if engine == "echo":
        with pytest.raises(Unsupported, match="bad_words"):
            client.generate(PROMPT, asked)
    else:
        assert len(client.generate(PROMPT, asked).output_ids) == 8


def test_token_ids_in_give_what_their_text_gives(client: Client, checkpoint: Any) -> None:
    from tokenizers import Tokenizer

    ids = Tokenizer.from_file(str(checkpoint / "tokenizer.json")).encode(PROMPT).ids
    assert client.generate(ids, length(16)).text == whole(client, 16).text


def test_a_stop_word_cuts_the_text_before_it(client: Client) -> None:
    text = whole(client, 48).text
    word = text[len(text) // 2 :][:3]
    assert word
    for answer in (
        client.generate(PROMPT, length(48, stop_words=[word])),
        client.generate(PROMPT, length(48, stop_words=["never in it", word]), on_chunk=lambda _: None),
    ):
        assert answer.text == text[: text.index(word)]
        assert (answer.finish_reason, answer.stop_reason or word) == ("stop", word)
    kept = client.generate(PROMPT, length(48, stop_words=[word], include_stop_str_in_output=True))
    assert kept.text == text[: text.index(word)] + word


def test_requests_that_a_stop_word_ended_leave_their_places(
    server: ServerUnderTest, client: Client, engine: str
) -> None:
    text = whole(client, 16).text
    for _ in range(3):
        client.generate(PROMPT, length(1500, stop_words=[text[4:7]]))
    status = functools.partial(generator_status, server, f"{engine}-generator")
    server.wait_until(lambda: status().busy == 0, "the places free")


def test_leaving_a_stream_frees_its_place(server: ServerUnderTest, url: str, engine: str) -> None:
    async def leave() -> None:
        async with AsyncClient(url, model=engine) as client:

            async def read_two(number: int) -> None:
                async with aclosing(client.stream(f"Voyage {number}", length(1900))) as chunks:
                    seen = 0
                    async for _ in chunks:
                        seen += 1
                        if seen == 2:
                            return

            await asyncio.gather(*(read_two(number) for number in range(10)))

    before = ends(server, engine, "cancelled")
    asyncio.run(leave())
    server.wait_until(lambda: generator_status(server, f"{engine}-generator").busy == 0, "every place free")
    server.wait_until(lambda: ends(server, engine, "cancelled") > before, "cancelled ones on the metrics port")


def test_a_stopped_request_says_cancelled_and_keeps_its_text(server: ServerUnderTest, engine: str) -> None:
    async def stop() -> Completion:
        async with AsyncClient(server.grpc_url, model=engine) as client:
            name, first = new_request_id(), asyncio.Event()
            task = asyncio.create_task(
                client.generate(PROMPT, length(1900), request_id=name, on_chunk=lambda _: first.set())
            )
            await first.wait()
            await client.cancel(name)
            return await task

    answer = asyncio.run(stop())
    assert answer.finish_reason == "cancelled"
    assert 0 < len(answer.output_ids) < 1900
    assert answer.text


def test_stopping_what_does_not_run_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound):
        client.cancel("nobody")


def test_a_deadline_ends_a_request_with_what_it_has(client: Client) -> None:
    answer = client.generate(PROMPT, length(1900, timeout=500_000))
    assert answer.finish_reason == "timeout"
    assert len(answer.output_ids) < 1900


def test_resumed_ids_go_on_where_they_end(client: Client) -> None:
    full = whole(client, 24)
    for cut in (1, 11, 23):
        rest = client.generate(PROMPT, length(24, resume_ids=full.output_ids[:cut]))
        assert full.output_ids[:cut] + rest.output_ids == full.output_ids
        assert rest.output_tokens == 24


@pytest.mark.parametrize("engine", ["paged", "tensorrt"])  # echo never ends before its length
def test_a_stop_token_ends_it_and_is_named(client: Client) -> None:
    ids = whole(client, 24).output_ids
    at = next(n for n in range(3, 24) if ids[n] not in ids[:n])
    answer = client.generate(PROMPT, length(24, stop_token_ids=[ids[at]], more={"return_stop_reason": True}))
    assert answer.output_ids == ids[:at]
    assert (answer.finish_reason, answer.stop_reason) == ("stop", str(ids[at]))


def test_seeds_are_told_and_decide(client: Client) -> None:
    asked = length(24, temperature=1.0, seed=11)
    one, two = client.generate(PROMPT, asked), client.generate(PROMPT, asked)
    assert one.output_ids == two.output_ids
    assert one.seed == two.seed == 11
    drawn = {client.generate(PROMPT, length(24, temperature=1.0)).seed for _ in range(3)}
    assert len(drawn) == 3


def test_more_requests_than_places_all_end(server: ServerUnderTest, engine: str) -> None:
    async def run() -> list[Completion]:
        async with AsyncClient(server.grpc_url, model=engine) as client:
            return await asyncio.gather(*(client.generate(f"{n}: {PROMPT}", length(40)) for n in range(24)))

    answers = asyncio.run(run())
    assert {(answer.finish_reason, len(answer.output_ids)) for answer in answers} == {("length", 40)}


@pytest.mark.parametrize("ability", ASKED)
def test_an_ability_works_or_is_refused_by_name(client: Client, engine: str, ability: str) -> None:
    if ability in LACKS[engine]:
        with pytest.raises((Unsupported, InvalidRequest)) as caught:
            client.generate(PROMPT, ASKED[ability])
        assert caught.value.reason in ("not_supported", "too_many_sequences")
    else:
        _CHECKS[ability](client.generate(PROMPT, ASKED[ability]), whole(client, 8))


def check_sequences(answer: Completion, plain: Completion) -> None:
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].output_ids != answer.choices[1].output_ids
    assert all(len(choice.output_ids) == 8 and choice.finish_reason == "length" for choice in answer.choices)
    assert answer.output_tokens == 16


def check_log_probs(answer: Completion, plain: Completion) -> None:
    assert answer.output_ids == plain.output_ids
    assert len(answer.log_probs) == len(answer.top_log_probs) == 8
    assert all(value <= 0 for value in answer.log_probs)
    assert all(len(top) == 2 for top in answer.top_log_probs)


def check_penalties(answer: Completion, plain: Completion) -> None:
    assert len(answer.output_ids) == 8
    assert answer.output_ids != plain.output_ids


def check_guides(answer: Completion, plain: Completion) -> None:
    assert answer.text.isdigit()
    assert len(answer.text) == 3
    assert answer.finish_reason == "stop"


_CHECKS: Mapping[str, Callable[[Completion, Completion], None]] = {
    "sequences": check_sequences,
    "log_probs": check_log_probs,
    "penalties": check_penalties,
    "guides": check_guides,
}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"text_input": ""}, "empty_prompt"),
        ({"input_ids": [3], "text_input": "x"}, "one_prompt"),
        ({"text_input": "x", "max_tokens": 4000}, "max_tokens_too_large"),
        ({"input_ids": [-1]}, "id_out_of_vocabulary"),
        ({"text_input": "x", "temperature": -0.5}, "temperature_out_of_range"),
        ({"text_input": "x", "max_tokns": 3}, "unknown_parameter"),
    ],
)
def test_mistakes_are_told_alike(server: ServerUnderTest, engine: str, body: dict[str, Any], reason: str) -> None:
    answer = httpx.post(f"{server.http_url}/v2/models/{engine}-generator/generate", json=body, timeout=60)
    assert answer.status_code == 400
    assert f"[INVALID_ARG {reason}] " in answer.json()["error"]


@pytest.mark.parametrize("name", ["image_url_input", "image_url"])
def test_images_are_refused_by_name(server: ServerUnderTest, engine: str, name: str) -> None:
    body = {"text_input": "x", name: "http://127.0.0.1/x.png"}
    answer = httpx.post(f"{server.http_url}/v2/models/{engine}-generator/generate", json=body, timeout=60)
    assert answer.status_code == 400
    assert f"[UNSUPPORTED not_supported] {name}" in answer.json()["error"]


def test_two_requests_of_one_id_are_refused(server: ServerUnderTest, engine: str) -> None:
    async def run() -> ServeError | None:
        async with AsyncClient(server.grpc_url, model=engine) as client:
            name, first = new_request_id(), asyncio.Event()
            running = asyncio.create_task(
                client.generate(PROMPT, length(1900), request_id=name, on_chunk=lambda _: first.set())
            )
            await first.wait()
            try:
                await client.generate(PROMPT, length(3), request_id=name)
            except ServeError as error:
                return error
            finally:
                await client.cancel(name)
                await running
        return None

    error = asyncio.run(run())
    assert error is not None
    assert error.reason == "duplicate_request_id"


def test_the_same_metrics_count(server: ServerUnderTest, client: Client, engine: str) -> None:
    before = ends(server, engine, "length")
    whole(client, 5)
    server.wait_until(lambda: ends(server, engine, "length") == before + 1, "the request on the metrics port")
    told = scrape(server.metrics_url)
    families = {name for name, _ in told.of(f"{engine}-generator")}
    assert families == {name for name, _ in told.of("paged-generator")}
    assert len(families) > 20


def test_the_status_says_healthy(server: ServerUnderTest, engine: str) -> None:
    status = generator_status(server, f"{engine}-generator")
    assert status.healthy
    assert not status.draining
