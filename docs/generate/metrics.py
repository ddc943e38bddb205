"""docs/metrics.md, from the table of metrics."""

from __future__ import annotations

from docs.generate.tables import bullets, names, table
from python_llm.error_reasons import OF_AN_INPUT, OTHER, REASONS
from python_llm.metrics import FAMILIES, LABELS, Family

__all__ = ["metrics_page"]

_NOTES = (
    "Updated every `metrics_seconds` (1; 0 turns metrics off) by a thread of its own, from counts in plain Python: a "
    "token costs a look at the clock and an append. Everything counts from the model's load; probes of the launcher "
    "are left out.",
    "Each request ends once in `triton_llm_requests_finished_total`; those under `error` stand in "
    "`triton_llm_errors_total` too.",
    "A histogram takes at most 200 observations an update. Where more were seen, each bucket gets its share of 200 at "
    "its mean, from the latest 8,192: quantiles and averages hold, `_count` falls behind. Tokens per second are "
    "`rate(triton_llm_output_tokens_total)`, never a histogram's count.",
    "`nv_trt_llm_*` are NVIDIA's names for the TensorRT-LLM backend, with its labels: dashboards made for it, and the "
    "Gateway API Inference Extension (waiting, scheduled, fraction, tokens_per, max), and llm-d through it, read them. "
    "`context` is the engine's running sequences that have no token yet; `active` is waiting + running.",
    'To scale: `sum(nv_trt_llm_request_metrics{request_type="waiting"})` a ready server; then KV fraction above '
    "0.85; TTFT as a guard.",
)
_LIFE = (
    "An unloaded model's series go. Loaded again it begins at zero.",
    "While a reloaded model stands beside its old copy, which finishes its requests, the old one publishes; the new "
    "one counts on and publishes all of it once the old one has left. (Triton 2.50 gives both the same series and dies "
    "when one of them leaves: so they take turns.)",
    "A backend process that dies leaves its last values on the port, and they do not change. The launcher then ends "
    "the whole of tritonserver, and the port with it, within about a second; the next one starts at zero.",
    "Several models, or versions, on one server differ in `model` and `version`.",
)


def metrics_page() -> str:
    """docs/metrics.md, from the table of metrics."""
    labels = table(("label", "is"), LABELS.items())
    patterns = (f"`{pattern.replace('{input}', '<input>')}`" for pattern in OF_AN_INPUT)
    return (
        "\n\n".join(
            [
                "# Metrics",
                "Made from `python_llm/metrics.py` by `make docs`. On Triton's metrics port (`METRICS_PORT`, 8002), "
                "beside its own `nv_inference_*`: the same names whatever the engine is. What an engine lacks reads 0.",
                *("Every series has", labels),
                *("## The table", table(("name", "type", "unit", "labels", "what"), map(_metric, FAMILIES))),
                *(
                    "## Buckets",
                    table(("histogram", "upper bounds"), (_bounds(row) for row in FAMILIES if row.bounds)),
                ),
                *("## How to read them", bullets(_NOTES)),
                *("## Life and death", bullets(_LIFE)),
                "## Reasons",
                f"`reason` is one of these, {', '.join(patterns)}, or `{OTHER}`. docs/tensors.md has their texts.",
                names(sorted(REASONS)),
            ]
        )
        + "\n"
    )


def _metric(row: Family) -> tuple[str, ...]:
    values = [values[0] for values in row.sources if values]
    label = f"`{row.labels[0]}`: {', '.join(values)}" if values else ", ".join(f"`{name}`" for name in row.labels)
    return row.name, row.kind, row.unit, label, row.help


def _bounds(row: Family) -> tuple[str, str]:
    return row.name, ", ".join(f"{bound:g}" if bound < 1e5 else f"{bound:.0f}" for bound in row.bounds)
