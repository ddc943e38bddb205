"""A request's span, and its trace at the server behind the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

import httpx
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from openai_gateway.app import create_app
from openai_gateway.telemetry import TELEMETRY, trace_headers
from plain_upstream import PlainUpstream
from triton_llm_client import Chunk, GenerateParams, Prompt

SECRET = "what was asked"
CALLERS = "4bf92f3577b34da6a3ce929d0e0e4736"


class Traced(PlainUpstream):
    """Remembers what would go with the call to a server."""

    headers: Mapping[str, str] = {}

    async def stream(
        self, model: str, prompt: Prompt, params: GenerateParams, *, request_id: str, prefix: str = ""
    ) -> AsyncGenerator[Chunk, None]:
        self.headers = trace_headers()
        async for chunk in super().stream(model, prompt, params, request_id=request_id, prefix=prefix):
            yield chunk


def test_a_span_goes_on_from_the_callers_and_to_the_server_and_tells_nothing_of_the_text() -> None:
    exporter, provider, upstream = InMemorySpanExporter(), TracerProvider(), Traced()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = create_app(upstream, telemetry={**TELEMETRY, "auto_configure": False, "tracer_provider": provider})

    async def ask(stream: bool) -> str:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
            body = {"model": "m", "prompt": SECRET, "stream": stream}
            headers = {"traceparent": f"00-{CALLERS}-00f067aa0ba902b7-01"}
            answer = await client.post("/v1/completions", json=body, headers=headers)
            assert answer.status_code == 200
            return upstream.headers["traceparent"]

    for stream in (False, True):
        exporter.clear()
        _, trace, parent, _ = asyncio.run(ask(stream)).split("-")
        assert trace == CALLERS
        spans = {format(span.context.span_id, "016x"): span for span in exporter.get_finished_spans() if span.context}
        assert parent in spans
        assert dict(spans[parent].attributes or {})["http.route"] == "/v1/completions"
        assert SECRET not in "".join(span.to_json() for span in spans.values())


def test_without_spans_nothing_goes_to_the_server() -> None:
    assert trace_headers() == {}
