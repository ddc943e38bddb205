"""What the gateway asks of Triton beside requests: is it ready, which models it has, and what is told about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from python_llm.settings import ADMIN_KEY_HEADER
from triton_llm_client.failures import from_grpc

__all__ = ["IndexRow", "TritonRpc"]

_RESTRICTED = f"triton-grpc-protocol-{ADMIN_KEY_HEADER}"  # Triton's own form of a restricted protocol's header


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A version of a model in Triton's repository index."""

    name: str
    version: str
    state: str
    reason: str


_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 2000))


class TritonRpc:
    """Short questions over a channel of their own, so that they do not wait behind streams.

    ``admin_key`` opens the repository index where the launcher listens beyond loopback. None: no answer, or a refusal.
    """

    def __init__(self, address: str, *, tls: bool = False, admin_key: str = "") -> None:
        self._address = address
        self._tls = tls
        self._metadata = ((_RESTRICTED, admin_key),) if admin_key else ()
        self._channel: Any = None
        self._service: Any = None

    async def ready(self, timeout: float) -> bool:
        answer = await self._ask("ServerReady", service_pb2.ServerReadyRequest(), timeout)
        return answer is not None and bool(answer.ready)

    async def index(self, timeout: float) -> list[IndexRow] | None:
        """Every version of every model that was ever loaded."""
        rows = await self.repository(timeout)
        return None if rows is None else [row for row in rows if row.state]

    async def repository(self, timeout: float) -> list[IndexRow] | None:
        """As `index`, with the models that were never loaded: their state and version are empty."""
        answer = await self._ask("RepositoryIndex", service_pb2.RepositoryIndexRequest(), timeout, self._metadata)
        if answer is None:
            return None
        return [IndexRow(row.name, row.version, row.state, row.reason) for row in answer.models]

    async def load(self, model: str, timeout: float) -> None:
        """Returns when it is loaded. Raises ServeError."""
        await self._do("RepositoryModelLoad", service_pb2.RepositoryModelLoadRequest(model_name=model), timeout)

    async def unload(self, model: str, timeout: float) -> None:
        """Returns at once; its running requests finish. Raises ServeError."""
        await self._do("RepositoryModelUnload", service_pb2.RepositoryModelUnloadRequest(model_name=model), timeout)

    async def versions(self, model: str, timeout: float) -> list[str]:
        """The versions that are ready; empty without an answer."""
        answer = await self._ask("ModelMetadata", service_pb2.ModelMetadataRequest(name=model), timeout)
        return [] if answer is None else list(answer.versions)

    async def parameters(self, model: str, timeout: float) -> Mapping[str, str]:
        """The ``parameters`` of the model's config.pbtxt; empty without an answer."""
        answer = await self._ask("ModelConfig", service_pb2.ModelConfigRequest(name=model), timeout)
        if answer is None:
            return {}
        return {name: value.string_value for name, value in answer.config.parameters.items()}

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def _ask(self, method: str, request: Any, timeout: float, metadata: Any = ()) -> Any:
        try:
            return await self._call(method, request, timeout, metadata)
        except grpc.aio.AioRpcError:
            return None

    async def _do(self, method: str, request: Any, timeout: float) -> None:
        try:
            await self._call(method, request, timeout, self._metadata)
        except grpc.aio.AioRpcError as error:
            details = error.details() or ""
            text = f"{request.model_name}: {details}"
            raise from_grpc(f"grpc://{self._address}", error.code().name, text) from error

    async def _call(self, method: str, request: Any, timeout: float, metadata: Any) -> Any:
        if self._channel is None:
            self._channel = self._open()
            self._service = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        return await getattr(self._service, method)(request, timeout=timeout, metadata=metadata)

    def _open(self) -> Any:
        if self._tls:
            return grpc.aio.secure_channel(self._address, grpc.ssl_channel_credentials(), _OPTIONS)
        return grpc.aio.insecure_channel(self._address, _OPTIONS)
