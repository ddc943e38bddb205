"""The ports of a server, checked before anything starts."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from triton_launcher.errors import LaunchRefused

__all__ = ["Ports", "check_ports", "ipv4_address", "is_loopback", "listening_error", "reachable"]


@dataclass(frozen=True)
class Ports:
    http: int = 8000
    grpc: int = 8001
    metrics: int = 8002
    health: int = 8003


def check_ports(host: str, ports: Ports, gateway: int = 0) -> None:
    """Raise LaunchRefused that names the first port that is taken, given twice or no port, and what to change.

    ``gateway``: the gateway's port; 0: there is none.
    """
    seen: dict[int, str] = {}
    for what, port in {**vars(ports), **({"gateway": gateway} if gateway else {})}.items():
        remedy = f"choose another with --{what}-port or {what.upper()}_PORT"
        if not 1 <= port <= 65535:
            raise LaunchRefused(f"{what} port {port}: it must lie between 1 and 65535; {remedy}.")
        if port in seen:
            raise LaunchRefused(f"{what} port {port}: it is the {seen[port]} port already; {remedy}.")
        seen[port] = what
        _check_free(host, what, port, remedy)


def ipv4_address(host: str) -> str:
    """The address of ``host``: Triton's HTTP server neither resolves names nor takes a bare IPv6 address."""
    try:
        return socket.gethostbyname(host)
    except (OSError, UnicodeError) as error:
        raise LaunchRefused(
            f"host '{host}': {error}; it must be an IPv4 address of this machine, or a name of one: change --host."
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host.startswith("127.")


def reachable(host: str) -> str:
    """The address at which a server that listens on ``host`` is reached from this machine."""
    return "127.0.0.1" if host == "0.0.0.0" else host


def listening_error(host: str, port: int) -> OSError | None:
    """Why nothing can listen there; None: it can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen()
        except OSError as error:
            return error
    return None


def _check_free(host: str, what: str, port: int, remedy: str) -> None:
    error = listening_error(host, port)
    if error is None:
        return
    if error.errno == errno.EADDRINUSE:
        raise LaunchRefused(
            f"{what} port {port} on {host}: another process listens there; stop it, or {remedy}."
        ) from error
    raise LaunchRefused(
        f"{what} port {port} on {host}: {error.strerror or error}; the address must be this machine's: "
        f"change --host, or {remedy}."
    ) from error
