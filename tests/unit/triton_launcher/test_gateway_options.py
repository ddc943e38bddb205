"""Whether and where the launcher starts the gateway."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from server_under_test import free_ports
from triton_launcher import gateway
from triton_launcher.cli import add_arguments, read_options
from triton_launcher.errors import LaunchRefused
from triton_launcher.options import ServeOptions
from triton_launcher.ports import Ports, check_ports
from triton_launcher.progress import welcome

Read = Callable[..., ServeOptions]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    monkeypatch.delenv("GATEWAY_PORT", raising=False)

    def options(*words: str) -> ServeOptions:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        return read_options(parser.parse_args(words))

    return options


def test_it_is_started_on_9000_unless_told_otherwise(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read().gateway_port == 9000
    assert read("--no-gateway").gateway_port == 0
    assert read("--gateway-port", "9001").gateway_port == 9001
    monkeypatch.setenv("GATEWAY_PORT", "9002")
    assert read().gateway_port == 9002
    with pytest.raises(LaunchRefused, match="--no-gateway"):
        read("--gateway-port", "0")


def test_its_port_is_checked_with_the_others() -> None:
    http, grpc, metrics, health = free_ports(4)
    ports = Ports(http, grpc, metrics, health)
    with pytest.raises(LaunchRefused, match=r"gateway port .*it is the http port already.*GATEWAY_PORT"):
        check_ports("127.0.0.1", ports, http)
    check_ports("127.0.0.1", ports)


def test_the_welcome_names_it_and_a_line_to_try() -> None:
    told = welcome(ServeOptions(gateway_port=9000), ["m", "m-generator"])
    assert "gateway  http://127.0.0.1:9000" in told
    assert "curl -N http://127.0.0.1:9000/v1/chat/completions" in told
    assert "9000" not in welcome(ServeOptions(), ["m", "m-generator"])


def test_a_library_that_is_missing_is_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "_LIBRARIES", ("no_such_library",))
    with pytest.raises(LaunchRefused, match=r"no_such_library.*--no-gateway"):
        gateway.check_gateway(ServeOptions(gateway_port=9000))
    gateway.check_gateway(ServeOptions())
