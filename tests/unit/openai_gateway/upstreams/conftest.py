"""A pool of fake generators whose launchers say what they are told to say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from fake_generators import FakeGenerator
from openai_gateway.metrics import GatewayMetrics
from openai_gateway.upstreams.address import Address
from openai_gateway.upstreams.pool import Pool
from openai_gateway.upstreams.pooled import PooledUpstream
from openai_gateway.upstreams.settings import UpstreamSettings
from triton_llm_client.transport import Transport

QUICK = UpstreamSettings(health_seconds=0.01, facts_seconds=3600, retry_seconds=2, resume_seconds=2, breaker_seconds=0)
READY: dict[str, Any] = {"phase": "ready", "reasons": [], "models": {"m-generator": "READY"}}


@dataclass
class Behind:
    """What is behind the gateway: generators by name, and what each launcher says (None: it is silent)."""

    upstream: PooledUpstream
    generators: dict[str, FakeGenerator]
    says: dict[str, dict[str, Any] | None] = field(default_factory=dict)

    @property
    def pool(self) -> Pool:
        return self.upstream.pool

    @property
    def metrics(self) -> str:
        return self.upstream._metrics.render().decode()


@asynccontextmanager
async def behind(count: int, settings: UpstreamSettings = QUICK, **changes: Any) -> AsyncIterator[Behind]:
    """``count`` servers that serve the model ``m``; they cut their answers differently."""
    names = [f"127.0.0.{number + 1}:9" for number in range(count)]
    generators = {name: FakeGenerator(f"grpc://{name}", 1 + number) for number, name in enumerate(names)}
    says: dict[str, dict[str, Any] | None] = {name: dict(READY) for name in names}

    def answer(request: httpx.Request) -> httpx.Response:
        said = says[f"{request.url.host}:9"]
        if said is None:
            raise httpx.ConnectError("refused")
        return httpx.Response(200 if said["phase"] == "ready" else 503, content=json.dumps(said))

    def wire(url: str) -> Transport:
        return generators[url.removeprefix("grpc://")]

    addresses = [Address(name.partition(":")[0], 9, f"http://{name.partition(':')[0]}:80/ready") for name in names]
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    settings, metrics = replace(settings, **changes), GatewayMetrics()
    pool = Pool(addresses, settings, metrics, client=client, transport=wire)
    await pool.start()
    upstream = PooledUpstream(pool, settings, metrics)
    try:
        yield Behind(upstream, generators, says)
    finally:
        await upstream.close()
