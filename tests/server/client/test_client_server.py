"""The client against a real Triton with the echo engine, which repeats the prompt's tokens in a circle."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, closing

import pytest

from generator_status import generator_status
from python_llm.errors import InvalidRequest, NotFound, ServeError, Unavailable, Unsupported
from server_under_test import ServerUnderTest, wait_until
from triton_llm_client import AsyncClient, Client, GenerateParams, new_request_id

WAIT_SECONDS = 60.0
LONG = GenerateParams(max_tokens=1500)  # 30 s at the engine's pace: ends by cancellation in every test


def test_streamed_and_whole_answers_agree(url: str) -> None:
    params = GenerateParams(max_tokens=9, seed=5)
    with Client(url) as client:
        chunks = list(client.stream("Tokens go in, tokens come out", params))
        whole = client.generate("Tokens go in, tokens come out", params)
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert tuple(token for chunk in chunks for token in chunk.output_ids) == whole.output_ids
    assert len(chunks) > 1
    assert [chunk.finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert (whole.finish_reason, whole.output_tokens, whole.seed) == ("length", 9, 5)


def test_ids_in_ids_out(server: ServerUnderTest) -> None:
    with Client(server.grpc_url) as client:
        answer = client.generate([65, 66, 67], GenerateParams(max_tokens=5))
        resumed = client.generate([65, 66, 67], GenerateParams(max_tokens=5, resume_ids=[65, 66]))
    assert (answer.output_ids, answer.input_tokens) == ((65, 66, 67, 65, 66), 3)
    assert (resumed.output_ids, resumed.output_tokens) == ((67, 65, 66), 5)


def test_http_takes_one_id_and_says_why_not_more(server: ServerUnderTest) -> None:
    with Client(server.http_url) as client:
        assert client.generate([65], GenerateParams(max_tokens=1)).output_ids == (65,)
        with pytest.raises(Unsupported, match="use gRPC"):
            client.generate([65, 66], GenerateParams(max_tokens=1))


def test_stop_words_reach_the_server(url: str) -> None:
    with Client(url) as client:
        answer = client.generate("bread", GenerateParams(max_tokens=5, stop_words=["x", "ea"]))
    assert (answer.text, answer.finish_reason) == ("br", "stop")


def test_messages_get_the_checkpoints_template(url: str) -> None:
    with Client(url) as client:
        answer = client.generate([{"role": "user", "content": "bread"}], GenerateParams(max_tokens=8))
    assert "user" in answer.text
    assert "bread" in answer.text


def test_a_fresh_seed_above_2_to_the_63_survives(url: str) -> None:
    with Client(url) as client:
        assert client.generate([65], GenerateParams(max_tokens=1, seed=2**64 - 1)).seed == 2**64 - 1


@pytest.mark.parametrize(
    ("params", "model", "kind"),
    [
        (GenerateParams(max_tokens=10**6), "smollm2", InvalidRequest),
        (GenerateParams(temperature=-1.0), "smollm2", InvalidRequest),
        (GenerateParams(), "nobody", NotFound),
        (GenerateParams(num_return_sequences=2), "smollm2", Unsupported),  # of this engine
        (GenerateParams(logit_bias={65: 1.0}), "smollm2", Unsupported),
        (GenerateParams(stop_token_ids=[1, -5]), "smollm2", InvalidRequest),
    ],
)
def test_refusals_are_typed(url: str, params: GenerateParams, model: str, kind: type[ServeError]) -> None:
    with Client(url, model=model) as client, pytest.raises(kind) as caught:
        client.generate("hello", params)
    assert caught.value.reason not in ("refused_by_triton", "unknown")


def test_leaving_a_stream_frees_its_place_20_of_20(url: str) -> None:
    with Client(url) as client:
        for _ in range(20):
            chunks = client.stream("round and round", LONG)
            with closing(chunks):
                next(chunks)
        wait_until(lambda: all_places_are_free(url), "every place to be free", WAIT_SECONDS)


def test_leaving_the_ensemble_stops_its_generator(server: ServerUnderTest) -> None:
    """Triton does not tell an ensemble's steps that their client left; ours sends a stop."""
    before = generator_status(server, "smollm2-generator").steps
    with Client(server.grpc_url, ensemble=True) as client:
        with closing(client.stream("round and round", LONG)) as chunks:
            next(chunks)
        server.wait_until(lambda: generator_status(server, "smollm2-generator").busy == 0, "the place to be free")
    assert generator_status(server, "smollm2-generator").steps - before < 1500


def test_a_full_queue_is_unavailable_with_its_reason(url: str) -> None:
    async def crowd() -> None:
        async with AsyncClient(url) as client:
            tasks = [asyncio.create_task(client.generate("hello", LONG, on_chunk=ignore)) for _ in range(6)]
            done, pending = await asyncio.wait(tasks, timeout=WAIT_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
            reasons = {error.reason for task in done if isinstance(error := task.exception(), Unavailable)}
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            assert reasons == {"queue_full"}

    asyncio.run(crowd())
    wait_until(lambda: all_places_are_free(url), "every place to be free", WAIT_SECONDS)


def test_cancel_ends_the_request_of_that_id(url: str) -> None:
    async def cancel() -> str | None:
        async with AsyncClient(url) as client:
            request_id, started = new_request_id(), asyncio.Event()
            task = asyncio.create_task(
                client.generate("hello", LONG, request_id=request_id, on_chunk=lambda _: started.set())
            )
            await started.wait()
            await client.cancel(request_id)
            return (await asyncio.wait_for(task, WAIT_SECONDS)).finish_reason

    assert asyncio.run(cancel()) == "cancelled"


def test_both_wires_may_cancel_each_other(server: ServerUnderTest) -> None:
    async def cross(first: str, second: str) -> str | None:
        async with AsyncClient(first) as one, AsyncClient(second) as other:
            request_id, reason = new_request_id(), None
            async with aclosing(one.stream("hello", LONG, request_id=request_id)) as chunks:
                async for chunk in chunks:
                    if reason is None:
                        await other.cancel(request_id)
                    reason = chunk.finish_reason or "running"
            return reason

    assert asyncio.run(cross(server.grpc_url, server.http_url)) == "cancelled"
    assert asyncio.run(cross(server.http_url, server.grpc_url)) == "cancelled"


def test_ready(url: str) -> None:
    with Client(url) as client, Client(url, model="nobody") as nobody:
        assert client.ready()
        assert not nobody.ready()


def all_places_are_free(url: str) -> bool:
    """Whether as many short requests as the server holds (two run, two wait) are all taken at once."""

    async def fill() -> bool:
        async with AsyncClient(url) as client:
            answers = (client.generate([65], GenerateParams(max_tokens=1)) for _ in range(4))
            results = await asyncio.gather(*answers, return_exceptions=True)
        return not any(isinstance(result, BaseException) for result in results)

    return asyncio.run(fill())


def ignore(_: object) -> None:
    """Streams."""
