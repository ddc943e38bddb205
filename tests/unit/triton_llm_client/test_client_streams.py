"""Both clients over both wires against the scripted Triton (see conftest)."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from typing import Any

import pytest

from python_llm.errors import (
    CallerMistake,
    EngineFailure,
    InvalidRequest,
    NotFound,
    RequestCancelled,
    ServeError,
    Unavailable,
)
from triton_llm_client import AsyncClient, Chunk, Client, GenerateParams, ServerUnreachable, grpc_call
from triton_llm_client.transport import open_transport

WAIT_SECONDS = 60.0  # only catches hangs


def test_chunks_arrive_typed_and_in_order(url: str) -> None:
    with Client(url) as client:
        chunks = list(client.stream("words The|  sun| äé| \u2028x"))
    assert [chunk.text for chunk in chunks] == ["The", "  sun", " äé", " \u2028x"]
    assert [chunk.output_ids for chunk in chunks] == [(0,), (1,), (2,), (3,)]
    assert [chunk.finish_reason for chunk in chunks] == [None, None, None, "length"]
    assert chunks[-1] == Chunk(" \u2028x", (3,), 0, "length", 7, 4, 2**64 - 1)


def test_the_stream_names_the_generator_and_asks_for_deltas(triton: Any) -> None:
    with Client(triton.grpc_url) as client:
        list(client.stream([1, 2, 3], GenerateParams(max_tokens=4, temperature=0.5, seed=2**63), request_id="mine"))
    assert triton.requests == [
        {
            "model": "smollm2-generator",
            "id": "mine",
            "inputs": {"input_ids": [1, 2, 3], "max_tokens": 4, "temperature": 0.5, "seed": 2**63, "stream": True},
        }
    ]
    assert "triton_grpc_error" not in triton.metadata  # Triton 2.50 dies of it


def test_generate_without_a_callback_asks_for_one_response(url: str, triton: Any) -> None:
    with Client(url) as client:
        completion = client.generate("words a|b", request_id="r1")
    assert (completion.text, completion.finish_reason) == ("ab", "length")
    assert (completion.input_tokens, completion.output_tokens, completion.seed) == (7, 2, 2**64 - 1)
    assert completion.request_id == "r1"
    assert "stream" not in triton.requests[0]["inputs"]


def test_the_callback_sees_every_chunk(url: str) -> None:
    seen: list[str] = []
    with Client(url) as client:
        completion = client.generate("words a|b|c", on_chunk=lambda chunk: seen.append(chunk.text))
    assert seen == ["a", "b", "c"]
    assert completion.text == "abc"
    assert completion.output_ids == (0, 1, 2)
    assert completion.ttft_seconds is not None
    assert 0 < completion.ttft_seconds <= completion.total_seconds


def test_an_exception_out_of_the_callback_cancels_the_request(url: str, triton: Any) -> None:
    def fail(_: Chunk) -> None:
        raise ZeroDivisionError

    with Client(url) as client, pytest.raises(ZeroDivisionError):
        client.generate("endless", on_chunk=fail)
    assert triton.left.wait(WAIT_SECONDS)


def test_messages_travel_as_json(url: str, triton: Any) -> None:
    with Client(url) as client:
        client.generate([{"role": "user", "content": "Grüß dich"}])
        client.generate({"messages": [], "tools": []})
    assert triton.requests[0]["inputs"] == {"messages": '[{"role": "user", "content": "Grüß dich"}]'}
    assert triton.requests[1]["inputs"] == {"messages": '{"messages": [], "tools": []}'}


def test_over_http_several_stop_ids_travel_in_vllms_object(triton: Any) -> None:
    """Triton's generate routes take no list of several numbers."""
    with Client(triton.http_url) as client:
        for params in (
            GenerateParams(stop_token_ids=[5, 6]),
            GenerateParams(stop_token_ids=[5, 6], sampling_parameters={"n": 1}),
            GenerateParams(stop_token_ids=[5]),
            GenerateParams(stop_token_ids=[5, 6], sampling_parameters="no json"),
        ):
            client.generate("words a", params)
    sent = [dict(request["inputs"]) for request in triton.requests]
    for inputs in sent:
        del inputs["text_input"]
    assert sent == [
        {"sampling_parameters": '{"stop_token_ids": [5, 6]}'},
        {"sampling_parameters": '{"n": 1, "stop_token_ids": [5, 6]}'},
        {"stop_token_ids": [5]},
        {"stop_token_ids": [5, 6], "sampling_parameters": "no json"},
    ]


def test_leaving_the_iteration_cancels_on_the_server(url: str, triton: Any) -> None:
    with Client(url) as client:
        for chunk in client.stream("endless"):
            assert chunk.text == "x"
            break
        assert triton.left.wait(WAIT_SECONDS)


def test_closing_the_stream_cancels_on_the_server(url: str, triton: Any) -> None:
    with Client(url) as client:
        chunks = client.stream("endless")
        with closing(chunks):
            next(chunks)
        assert triton.left.wait(WAIT_SECONDS)
        assert client.generate("words still|here").text == "stillhere"


def test_closing_the_client_cancels_what_runs(triton: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(triton.grpc_url)
    chunks = client.stream("endless")
    next(chunks)
    with monkeypatch.context() as patch:
        patch.setattr(grpc_call, "_PATIENCE_SECONDS", WAIT_SECONDS)
        begin = time.monotonic()
        client.close()
        assert time.monotonic() - begin < WAIT_SECONDS / 2, "the call did not end by itself"
    assert triton.left.wait(WAIT_SECONDS)
    assert triton.resets == 0
    with pytest.raises(RequestCancelled, match="closed"):
        list(chunks)
    client.close()


def test_async_leaving_cancels_on_the_server(url: str, triton: Any) -> None:
    async def leave() -> None:
        async with AsyncClient(url) as client:
            async with aclosing(client.stream("endless")) as chunks:
                async for _ in chunks:
                    break
            await asyncio.to_thread(triton.left.wait, WAIT_SECONDS)

    asyncio.run(leave())
    assert triton.left.is_set()


def test_async_leaving_without_closing_cancels_too(url: str, triton: Any) -> None:
    async def leave() -> None:
        async with AsyncClient(url) as client:
            async for _ in client.stream("endless"):
                break
            await asyncio.to_thread(triton.left.wait, WAIT_SECONDS)

    asyncio.run(leave())
    assert triton.left.is_set()


def test_cancelling_the_task_cancels_on_the_server(url: str, triton: Any) -> None:
    async def cancel() -> None:
        async with AsyncClient(url) as client:
            started = asyncio.Event()
            task = asyncio.create_task(client.generate("endless", on_chunk=lambda _: started.set()))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(triton.left.wait, WAIT_SECONDS)

    asyncio.run(cancel())
    assert triton.left.is_set()


@pytest.mark.parametrize("how", ["close", "cancel", "end the client"])
def test_who_leaves_a_grpc_stream_sends_stop_and_resets_nothing(how: str, triton: Any) -> None:
    """Triton 2.50 loses count of requests whose streams are reset, and dies of it now and then."""

    async def leave() -> None:
        async with AsyncClient(triton.grpc_url) as client:
            chunks = client.stream("endless")
            await anext(chunks)
            if how == "close":
                await chunks.aclose()
            elif how == "cancel":
                reading = asyncio.ensure_future(_read_all(chunks))
                await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait({reading})

    asyncio.run(leave())
    assert triton.left.is_set()
    assert triton.resets == 0
    assert [request["inputs"]["stop"] for request in triton.requests[1:]] == [True]
    assert triton.requests[1]["id"] == triton.requests[0]["id"]


def test_a_server_that_is_deaf_to_stop_is_reset_and_no_task_is_left_behind(
    triton: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_call, "_PATIENCE_SECONDS", 0.1)

    async def leave() -> list[str]:
        async with AsyncClient(triton.grpc_url) as client:
            chunks = client.stream("deaf")
            await anext(chunks)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return [str(task.get_coro()) for task in others if "triton_llm_client" in str(task.get_stack())]

    assert asyncio.run(leave()) == []
    assert triton.left.wait(WAIT_SECONDS)
    assert triton.resets == 1


async def _read_all(chunks: AsyncGenerator[Chunk, None]) -> None:
    async for _ in chunks:
        pass


def test_headers_go_with_each_call(triton: Any) -> None:
    numbers = iter("12")
    with Client(transport=open_transport(triton.grpc_url, headers=lambda: {"traceparent": next(numbers)})) as client:
        for number in "12":
            client.generate("words a")
            assert triton.metadata["traceparent"] == number


def test_many_requests_share_one_connection(url: str) -> None:
    async def ask() -> list[str]:
        async with AsyncClient(url) as client:
            answers = await asyncio.gather(*(client.generate(f"words {n}|!") for n in range(16)))
            return [answer.text for answer in answers]

    assert asyncio.run(ask()) == [f"{n}!" for n in range(16)]


def test_cancel_sends_stop_with_the_id(url: str, triton: Any) -> None:
    with Client(url) as client:
        client.cancel("that-one")
    assert triton.requests == [{"model": "smollm2-generator", "id": "that-one", "inputs": {"stop": True}}]


def test_ready_asks_for_the_generator(url: str) -> None:
    with Client(url) as client, Client(url, model="other") as other:
        assert client.ready()
        assert not other.ready()


@pytest.mark.parametrize("command", ["error", "break"])
@pytest.mark.parametrize(
    ("head", "kind", "reason"),
    [
        ("[UNAVAILABLE queue_full]", Unavailable, "queue_full"),
        ("[INVALID_ARG max_tokens_too_large]", InvalidRequest, "max_tokens_too_large"),
        ("[INTERNAL engine_failed]", EngineFailure, "engine_failed"),
    ],
)
def test_the_backends_errors_come_back_typed(
    url: str, command: str, head: str, kind: type[ServeError], reason: str
) -> None:
    seen: list[Chunk] = []
    with Client(url) as client, pytest.raises(kind, match=r'told to "x"\.$') as caught:
        client.generate(f'{command} {head} told to "x".', on_chunk=seen.append)
    assert caught.value.reason == reason
    assert type(caught.value) is kind
    assert len(seen) == (command == "break")


def test_an_unknown_model_is_not_found(triton: Any) -> None:
    with Client(triton.grpc_url, model="nobody") as client, pytest.raises(NotFound, match="nobody"):
        client.generate("words a")


@pytest.mark.parametrize("scheme", ["grpc://", "http://"])
def test_no_server_is_a_typed_error_that_names_the_url(scheme: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{unused.getsockname()[1]}"
        with Client(address) as client:
            assert not client.ready()
            with pytest.raises(ServerUnreachable, match="make serve") as caught:
                client.generate("hello")
    assert caught.value.url == address
    assert address in str(caught.value)
    assert caught.value.reason == "unreachable"


@pytest.mark.parametrize("url", ["ftp://host", "http://", "grpc://", "http://[::1"])
def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(CallerMistake, match="url"):
        Client(url)


def test_threads_share_a_client(url: str) -> None:
    answers: list[str] = []
    with Client(url) as client:
        threads = [
            threading.Thread(target=lambda n=n: answers.append(client.generate(f"words t|{n}").text)) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [f"t{n}" for n in range(8)]
