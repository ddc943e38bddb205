"""One server behind the gateway, as the gateway sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from openai_gateway.upstreams.address import Address
from openai_gateway.upstreams.breaker import Breaker
from openai_gateway.upstreams.facts import ModelFacts
from openai_gateway.upstreams.health import Health
from openai_gateway.upstreams.reading import Reading
from openai_gateway.upstreams.triton_rpc import TritonRpc
from python_llm.contract import generator_model
from python_llm.errors import ServeError, Unavailable
from triton_llm_client.transport import Transport

__all__ = ["Server"]


class Server:
    """``load``: tokens that its requests still have to compute, as far as this gateway knows.

    ``drained``: somebody told the gateway that it goes (an operator, a spot notice); ``leaving``: so does it itself
    say, or the DNS name no longer stands for it (``retired``).
    """

    def __init__(
        self, address: Address, origin: Address, transport: Transport, rpc: TritonRpc, breaker: Breaker
    ) -> None:
        """``origin``: the upstream as it was written."""
        self.address, self.origin = address, origin
        self.name = address.name
        self.transport, self.rpc, self.breaker = transport, rpc, breaker
        self.health = Health()
        self.models: Mapping[str, ModelFacts] = {}
        self.load = 0.0
        self.drained = False
        self.retired = False
        self.seen = asyncio.Event()  # it was looked at
        self.missed = 0  # looks in a row without an answer
        self.facts_due = 0.0  # when to read its models again, by the event loop's clock
        self._readings: dict[Reading, tuple[str, str]] = {}  # by: model and version

    @property
    def leaving(self) -> bool:
        return self.drained or self.retired or self.health.phase == "draining"

    @property
    def running(self) -> int:
        """Streams that are read from it now."""
        return len(self._readings)

    def takes(self, model: str, version: str = "") -> bool:
        """Whether a request for the served ``model`` may be sent to it now."""
        return not self.leaving and self.breaker.admits and self.serves(model, version)

    def serves(self, model: str, version: str = "") -> bool:
        """As far as it says; a model it never spoke of is not there."""
        if not self.health.serves(generator_model(model)):
            return False
        if not self.models:
            return True
        facts = self.models.get(model)
        return facts is not None and (not version or facts.versions.get(version) == "READY")

    @property
    def trouble(self) -> str:
        """Why it takes no requests; empty when it does."""
        if self.drained:
            return "drained by request"
        if self.breaker.state == "open":
            return "it failed again and again"
        return "; ".join(self.health.reasons) if self.health.phase != "ready" or self.health.reasons else ""

    @contextmanager
    def read_by(self, reading: Reading, model: str, version: str) -> Iterator[None]:
        """The reading is this server's inside the block: what befalls the server interrupts it."""
        self._readings[reading] = (model, version)
        try:
            yield
        finally:
            del self._readings[reading]

    def interrupt(self, cause: ServeError, which: Callable[[str, str], bool] = lambda model, version: True) -> None:
        """Its streams (of the models and versions that ``which`` names) break off, to be continued elsewhere."""
        for reading, (model, version) in tuple(self._readings.items()):
            if which(model, version):
                reading.interrupt(cause)

    async def close(self) -> None:
        self.interrupt(Unavailable("closed", f"server '{self.name}': the gateway gives it up."))
        await self.rpc.close()
        await self.transport.close()
