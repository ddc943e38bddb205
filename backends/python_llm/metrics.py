"""The table of metrics: what a generator tells Prometheus, under the same names whatever its engine is.

A new metric is one row. A row names where its numbers come from: a key of `python_llm.readings`, which holds the
generator's status, every field of ``EngineStats`` by its own name, and what the `Recorder` counted. A key that an
engine lacks reads 0. docs/metrics.md is made from these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["FAMILIES", "LABELS", "Family", "Kind"]

Kind = Literal["counter", "gauge", "histogram"]

# Of every series. ``model`` is the Triton model, as in Triton's own nv_inference_* metrics.
LABELS = {"model": "the Triton model, NAME-generator", "version": "its version folder"}


@dataclass(frozen=True)
class Family:
    """``sources``: values of ``labels`` -> key of the number, one series each.

    ``each``: key of a group of numbers by values of ``labels``, a series for each that is there.
    ``bounds``: the upper bounds of a histogram's buckets; ``sources`` names what it observes.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    sources: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    each: str = ""
    bounds: tuple[float, ...] = ()


def _counter(name: str, unit: str, source: str, text: str) -> Family:
    return Family(f"triton_llm_{name}_total", "counter", unit, text, {(): source})


def _gauge(name: str, unit: str, source: str, text: str) -> Family:
    return Family(f"triton_llm_{name}", "gauge", unit, text, {(): source})


def _histogram(name: str, unit: str, source: str, bounds: tuple[float, ...], text: str) -> Family:
    return Family(f"triton_llm_{name}", "histogram", unit, text, {(): source}, bounds=bounds)


def _nvidias(name: str, label: str, unit: str, text: str, sources: Mapping[str, str]) -> Family:
    rows: dict[tuple[str, ...], str] = {(value,): source for value, source in sources.items()}
    return Family(f"nv_trt_llm_{name}", "gauge", unit, text, rows, labels=(label,))


_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0)
_FIRST_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
_QUEUE_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
_REQUEST_SECONDS = (0.05, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 240.0, 480.0, 960.0)
_LENGTHS = tuple(float(2**power) for power in range(18))  # 1 .. 131072

_ENDS = Family(
    "triton_llm_requests_finished_total",
    "counter",
    "requests",
    "Requests that ended, each once; of several sequences the first one's reason. 'error' holds the refused ones too.",
    labels=("finish_reason",),
    each="finished",
)
_ERRORS = Family(
    "triton_llm_errors_total",
    "counter",
    "requests",
    "Requests that ended with an error, by the code and reason of its text; reasons that are not ours are 'other'.",
    labels=("code", "reason"),
    each="errors",
)

FAMILIES: tuple[Family, ...] = (
    _gauge("requests_running", "requests", "running", "Requests that share the engine's steps."),
    _gauge("requests_waiting", "requests", "waiting", "Requests that are being admitted or wait for the engine."),
    _gauge("draining", "flag", "draining", "1: new requests are refused."),
    _ENDS,
    _ERRORS,
    _counter("prompt_tokens", "tokens", "prompt_tokens", "Prompt tokens of the requests that the engine was given."),
    _counter("output_tokens", "tokens", "output_tokens", "Tokens that the engine generated; resumed ones are not."),
    _histogram(
        *("time_to_first_token_seconds", "seconds", "first_token", _FIRST_SECONDS),
        "From a request's arrival to its first token.",
    ),
    _histogram(
        *("inter_token_latency_seconds", "seconds", "between_tokens", _TOKEN_SECONDS),
        "From a sequence's token to its next at the engine; of several at once an equal share each.",
    ),
    _histogram(
        *("queue_time_seconds", "seconds", "queued", _QUEUE_SECONDS),
        "From a request's arrival to its first step, where the engine tells when that was.",
    ),
    _histogram(
        *("e2e_latency_seconds", "seconds", "whole", _REQUEST_SECONDS),
        "From an admitted request's arrival to its final response.",
    ),
    _histogram(
        *("request_prompt_tokens", "tokens", "prompt_length", _LENGTHS),
        "Prompt tokens of an admitted request that ended.",
    ),
    _histogram(
        *("request_output_tokens", "tokens", "output_length", _LENGTHS),
        "Output tokens of a sequence that ended without an error, as its answer counts them, less resumed ones.",
    ),
    _counter("engine_steps", "steps", "steps", "Forward passes. With work waiting, a still counter is a stall."),
    _counter("preemptions", "sequences", "preemptions", "Times a running sequence gave its KV blocks to others."),
    _gauge("kv_blocks_used", "blocks", "blocks_used", "KV blocks that running sequences hold."),
    _gauge("kv_blocks_cached", "blocks", "blocks_cached", "KV blocks whose content the prefix cache knows."),
    _gauge("kv_blocks_max", "blocks", "blocks_total", "KV blocks there are; 0: the engine has no block cache."),
    _gauge("kv_blocks_used_ratio", "ratio", "blocks_ratio", "Used of total KV blocks, 0 to 1."),
    _gauge("kv_block_size_tokens", "tokens", "block_size", "Tokens of one KV block."),
    _counter("prefix_tokens_seen", "tokens", "prefix_tokens_seen", "Prompt tokens looked up in the prefix cache."),
    _counter("prefix_tokens_hit", "tokens", "prefix_tokens_hit", "Prompt tokens found there, not computed again."),
    _gauge("kv_host_blocks", "blocks", "host_blocks", "KV blocks kept in host memory."),
    _gauge("kv_disk_blocks", "blocks", "disk_blocks", "KV blocks kept on disk, of this model and layout."),
    _gauge("kv_disk_off", "flag", "disk_off", "1: the disk refused, and no block is written to it any more."),
    _counter("kv_offloads", "blocks", "offloads", "KV blocks that went from the cache to host memory."),
    _counter("kv_store_hits", "blocks", "store_hits", "KV blocks that a prompt wanted and the store had in time."),
    _counter("kv_store_misses", "prompts", "store_misses", "Prompts that wanted a block which the store lacked."),
    _counter("kv_store_loads", "blocks", "store_loads", "KV blocks brought back from the store."),
    _counter("kv_store_errors", "files", "store_errors", "Damaged or unreadable KV files, and refusals of the disk."),
    _counter("draft_tokens_proposed", "tokens", "drafts_proposed", "Tokens that speculation guessed."),
    _counter("draft_tokens_accepted", "tokens", "drafts_accepted", "Guessed tokens that the model agreed with."),
    _nvidias(
        *("request_metrics", "request_type", "requests"),
        "TRT LLM request metrics",
        {
            "waiting": "waiting",
            "context": "in_context",
            "scheduled": "running",
            "max": "max_running",
            "active": "unfinished",
        },
    ),
    _nvidias(
        *("kv_cache_block_metrics", "kv_cache_block_type", "blocks"),
        "TRT LLM KV cache block metrics",
        {
            "fraction": "blocks_ratio",
            "tokens_per": "block_size",
            "used": "blocks_used",
            "free": "blocks_free",
            "max": "blocks_total",
        },
    ),
)
