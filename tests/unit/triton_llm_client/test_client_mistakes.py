"""Mistakes in Python are typed errors, said before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from python_llm.errors import CallerMistake, InvalidRequest
from triton_llm_client import Client, GenerateParams
from triton_llm_client.transport import open_transport

NOWHERE = "127.0.0.1:1"

MISTAKES: list[tuple[Callable[[Any], object], str]] = [
    (lambda client: client.generate(None), "invalid_prompt"),
    (lambda client: client.generate(5), "invalid_prompt"),
    (lambda client: client.generate(b"hi"), "invalid_prompt"),
    (lambda client: client.generate([]), "empty_prompt"),
    (lambda client: client.generate("x", {"max_tokens": 3}), "invalid_params"),
    (lambda client: client.generate("x", request_id=5), "invalid_request_id"),
    (lambda client: list(client.stream(None)), "invalid_prompt"),
]


@pytest.mark.parametrize(("mistake", "reason"), MISTAKES)
def test_wrong_types_are_typed_errors(mistake: Callable[[Any], object], reason: str) -> None:
    with Client(NOWHERE) as client, pytest.raises(InvalidRequest) as caught:
        mistake(client)
    assert caught.value.reason == reason


def test_a_parameter_may_be_given_once() -> None:
    with pytest.raises(InvalidRequest, match=r"given_twice.*max_tokens"):
        GenerateParams(max_tokens=3, more={"max_tokens": 4})
    assert GenerateParams(more={"max_tokens": 4}).tensors() == {"max_tokens": (4,)}


def test_a_closed_client_says_so() -> None:
    client = Client(NOWHERE)
    client.close()
    for use in (
        lambda: client.generate("x"),
        lambda: list(client.stream("x")),
        client.ready,
        lambda: client.cancel("1"),
    ):
        with pytest.raises(InvalidRequest, match="client_closed"):
            use()


@pytest.mark.parametrize("port", ["99999", "0", "abc", "80x", "-1", "²", "1" * 5000])
@pytest.mark.parametrize("scheme", ["", "grpc://", "http://"])
def test_a_port_that_is_none_is_refused(scheme: str, port: str) -> None:
    with pytest.raises(CallerMistake, match=rf"port '{port}'; it must be a number from 1 to 65535"):
        open_transport(f"{scheme}localhost:{port}")


@pytest.mark.parametrize("url", ["http://xn--:80", "http://xn--:80/prefix", "https://xn--a"])
def test_a_host_that_is_no_name_is_refused(url: str) -> None:
    with pytest.raises(CallerMistake, match=r"url 'https?://xn--.*write http://host:port"):
        open_transport(url)


@pytest.mark.parametrize("url", ["[::1]:8001", "[::1]", "localhost", "http://host/prefix", "http://host:8000/prefix"])
def test_other_addresses_are_taken(url: str) -> None:
    assert open_transport(url).url.endswith(url)
