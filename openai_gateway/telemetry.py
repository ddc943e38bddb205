"""OpenTelemetry: a span for each request, and its context to Triton, which adds its own.

FastAPI makes the spans. They are exported where ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``…_TRACES_ENDPOINT``) says so, for
which the extra ``otel`` must be installed; the other ``OTEL_`` variables are the SDK's own. Nothing that was asked or
answered is in them.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.telemetry import TelemetryConfig
from opentelemetry import propagate

__all__ = ["TELEMETRY", "trace_headers"]

# Its logs would hold what was asked; the metrics are at /metrics.
TELEMETRY: TelemetryConfig = {"auto_configure": True, "metrics": False, "logs": False, "operation_spans": False}


def trace_headers() -> Mapping[str, str]:
    """``traceparent`` and its kin of the request that is answered in this task; empty without spans."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier
