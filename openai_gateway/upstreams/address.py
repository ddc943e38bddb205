"""Where a server is, as people write it: ``[grpc[s]://]host:port[,health]``."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace

from python_llm.errors import CallerMistake

__all__ = ["Address", "parse_address"]

_FORM = "write host:port, or host:port,HEALTH with the launcher's health port, host:port or URL"


@dataclass(frozen=True, slots=True)
class Address:
    """gRPC at ``host:port``. ``health``: the URL of the launcher's /ready; empty: Triton itself is asked."""

    host: str
    port: int
    health: str = ""
    tls: bool = False

    @property
    def name(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'grpcs' if self.tls else 'grpc'}://{self.name}"

    @property
    def resolves(self) -> bool:
        """Whether the host is a name that may stand for several servers. With TLS the certificate needs the name."""
        return not self.tls and not _is_ip(self.host)

    def at(self, ip: str) -> Address:
        """The same at one of the addresses that the name stands for."""
        return replace(self, host=ip, health=self.health.replace(f"//{self.host}:", f"//{_bracketed(ip)}:"))


def parse_address(text: str) -> Address:
    """Raises CallerMistake that says how an upstream is written."""
    server, _, health = text.partition(",")
    scheme, separator, rest = server.rpartition("://")
    if separator and scheme not in ("grpc", "grpcs"):
        raise CallerMistake(f"upstream '{text}': scheme '{scheme}'; it must be grpc or grpcs: {_FORM}.")
    host, port = _host_port(text, rest)
    return Address(host, port, _health_url(text, host, health), scheme == "grpcs")


def _host_port(text: str, address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise CallerMistake(f"upstream '{text}': '{address}' is no host and port; {_FORM}.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _health_url(text: str, host: str, health: str) -> str:
    if not health or health.startswith(("http://", "https://")):
        return health
    if ":" in health:
        host, port = _host_port(text, health)
    else:
        host, port = _host_port(text, f"{_bracketed(host)}:{health}")
    return f"http://{_bracketed(host)}:{port}/ready"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
