"""The servers that a DNS name stands for."""

from __future__ import annotations

import asyncio
import socket

from openai_gateway.upstreams.address import Address

__all__ = ["resolve"]


async def resolve(address: Address) -> list[Address] | None:
    """One address a server, in order; of a name that has IPv4 addresses those alone. None: the name is not known now.

    An address that is no name is itself.
    """
    if not address.resolves:
        return [address]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    ips = {str(where[0]) for family, *_, where in found if family == socket.AF_INET}
    ips = ips or {str(where[0]) for *_, where in found}
    return [address.at(ip) for ip in sorted(ips)]
