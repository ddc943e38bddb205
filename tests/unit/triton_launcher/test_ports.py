from __future__ import annotations

import socket

import pytest

from server_under_test import free_ports
from triton_launcher.errors import LaunchRefused
from triton_launcher.ports import Ports, check_ports, ipv4_address, is_loopback, reachable


def test_free_ports_pass() -> None:
    check_ports("127.0.0.1", Ports(*free_ports(4)))


@pytest.mark.parametrize("what", ["http", "grpc", "metrics", "health"])
def test_a_taken_port_is_named_with_what_to_change(what: str) -> None:
    ports = dict(zip(("http", "grpc", "metrics", "health"), free_ports(4), strict=True))
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", ports[what]))
        holder.listen()
        with pytest.raises(LaunchRefused) as refused:
            check_ports("127.0.0.1", Ports(**ports))
    assert f"{what} port {ports[what]}" in str(refused.value)
    assert f"--{what}-port or {what.upper()}_PORT" in str(refused.value)


def test_one_port_given_twice_is_refused() -> None:
    port, *others = free_ports(3)
    with pytest.raises(LaunchRefused, match=f"grpc port {port}: it is the http port already"):
        check_ports("127.0.0.1", Ports(port, port, *others))


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(LaunchRefused, match="between 1 and 65535"):
        check_ports("127.0.0.1", Ports(http=port))


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(LaunchRefused, match="--host"):
        check_ports("192.0.2.1", Ports(*free_ports(4)))


def test_loopback_and_reachable_addresses() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.0.1.1", "0.0.0.0", "192.0.2.1")] == [
        True,
        True,
        False,
        False,
    ]
    assert [reachable(host) for host in ("0.0.0.0", "192.0.2.1")] == ["127.0.0.1", "192.0.2.1"]


def test_names_become_addresses_and_ipv6_is_refused() -> None:
    assert [ipv4_address(host) for host in ("localhost", "0.0.0.0")] == ["127.0.0.1", "0.0.0.0"]
    with pytest.raises(LaunchRefused, match=r"host '::1': .*IPv4"):
        ipv4_address("::1")
