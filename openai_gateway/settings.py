"""Everything ``triton-llm gateway`` can be told, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from openai_gateway.api_settings import ApiSettings
from openai_gateway.protection.settings import ProtectionSettings
from openai_gateway.upstreams.address import Address
from openai_gateway.upstreams.settings import UpstreamSettings
from python_llm.errors import CallerMistake

__all__ = ["DEFAULT_PORT", "DEFAULT_UPSTREAM", "GatewaySettings"]

DEFAULT_PORT = 9000
DEFAULT_UPSTREAM = "127.0.0.1:8001,8003"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """``grace_seconds``: for running streams to finish after SIGTERM. ``admin_key`` opens the repository index of
    servers that listen beyond loopback, and the gateway's own administrative routes. ``parent``: the process with
    which the gateway ends; 0: none.
    """

    upstreams: tuple[Address, ...]
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    grace_seconds: float = 30.0
    admin_key: str = field(default="", repr=False)
    parent: int = 0
    servers: UpstreamSettings = field(default_factory=UpstreamSettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    protection: ProtectionSettings = field(default_factory=ProtectionSettings)

    def __post_init__(self) -> None:
        if not self.upstreams:
            raise CallerMistake("--upstream: none is given; name at least one server as host:port[,health].")
        if not 0 <= self.port <= 65535:
            raise CallerMistake(f"--port {self.port}: it must lie between 1 and 65535; 0 takes a free one.")
        if self.grace_seconds < 0:
            raise CallerMistake(f"--grace-seconds {self.grace_seconds:g}: it must be 0 or more.")
