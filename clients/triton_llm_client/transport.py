"""The seam between the client and a wire: one small protocol, two implementations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from python_llm.contract import GENERATOR, RoleContract
from python_llm.errors import CallerMistake
from triton_llm_client.chunks import Chunk
from triton_llm_client.params import Tensors

__all__ = ["DEFAULT_GRPC_PORT", "DEFAULT_HTTP_PORT", "Call", "Headers", "Transport", "open_transport"]

Headers = Callable[[], Mapping[str, str]]

DEFAULT_HTTP_PORT = 8000
DEFAULT_GRPC_PORT = 8001


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the Triton model ``model``: ``tensors`` by contract name; ``stream`` asks for deltas.

    ``version``: which version of the model; empty: the one Triton chooses.
    """

    model: str
    request_id: str
    tensors: Tensors
    stream: bool
    contract: RoleContract = GENERATOR
    version: str = ""

    def inputs(self) -> Tensors:
        """The tensors with the stream flag, where the request generates at all."""
        return {**self.tensors, "stream": (True,)} if self.stream else self.tensors

    @property
    def first_index(self) -> int:
        """Which sequence a response belongs to that does not say so: a resumed one has the index it had."""
        return int(self.tensors.get("resume_index", (0,))[0])


class Transport(Protocol):
    """Carries calls to a server. Closing a generator early cancels its request on the server."""

    @property
    def url(self) -> str: ...

    def chunks(self, call: Call) -> AsyncGenerator[Chunk, None]:
        """Send the call and yield its responses.

        Raises:
            ServeError: typed by ``failures``; ServerUnreachable where there is no connection.
        """

    async def ready(self, model: str) -> bool:
        """Whether the server takes requests for the model now; False too where nothing listens."""

    async def close(self) -> None: ...


def open_transport(url: str, *, headers: Headers = dict) -> Transport:
    """Choose the wire by the URL's scheme: ``http://``, ``https://``, ``grpc://``, ``grpcs://``; without one gRPC.

    ``headers`` is asked at each call for what goes with it, such as ``traceparent``.

    Raises:
        CallerMistake: another scheme, no host, or what is no address at all.
    """
    scheme, separator, rest = url.rpartition("://")
    address = rest.rstrip("/")
    if not address:
        raise CallerMistake(f"url '{url}': it names no host; write host:port or http://host:port.")
    _check_port(url, address)
    if scheme in ("http", "https"):
        from triton_llm_client.http_transport import HttpTransport

        return HttpTransport(url.rstrip("/"), headers=headers)
    if scheme not in ("grpc", "grpcs") and separator:
        raise CallerMistake(f"url '{url}': scheme '{scheme}'; it must be grpc, grpcs, http or https.")
    from triton_llm_client.grpc_transport import GrpcTransport

    return GrpcTransport(address, tls=scheme == "grpcs", headers=headers)


def _check_port(url: str, address: str) -> None:
    """gRPC would take a port modulo 65536, and httpx fail late and in its own words."""
    host, colon, port = address.split("/")[0].rpartition(":")
    if colon and not host.endswith(":") and not port.endswith("]") and not _is_port(port):
        raise CallerMistake(f"url '{url}': port '{port}'; it must be a number from 1 to 65535.")


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536
