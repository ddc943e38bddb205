"""What somebody on call sees → where to look, in which order, and the next commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["SYMPTOMS", "Symptom"]


@dataclass(frozen=True)
class Symptom:
    """``areas``: the checks that explain it, likeliest first. ``next``: what to ask when they find nothing."""

    means: str
    areas: tuple[str, ...]
    next: tuple[str, ...]


SYMPTOMS: Mapping[str, Symptom] = {
    "oom": Symptom(
        "Out of memory. Mostly the KV cache: it is fixed by kv_cache_bytes and taken as it fills, hours after the "
        "start; then batches (max_running, max_num_tokens), and neighbours on the machine.",
        ("memory", "shared memory", "gpu", "artifacts"),
        (
            "triton-llm plan MODEL --cpu KIND --memory-gb GB   # or --gpu: what fits, by arithmetic",
            "triton-llm repo add NAME --set kv_cache_bytes=BYTES   # smaller; clients then wait instead",
            "triton-llm repo add NAME --set max_running=N --set max_num_tokens=N   # smaller batches",
        ),
    ),
    "latency": Symptom(
        "Latency swings. In this order: queueing (triton_llm_queue_time_seconds rises), preemptions for want of cache "
        "(triton_llm_preemptions_total), threads beyond the cores' limit, NUMA and PCIe, neighbours on the machine.",
        ("cpu", "numa", "gpu", "memory", "server"),
        (
            "triton-llm doctor --self-test   # bandwidth and token rate against the plan's ceiling: a neighbour shows",
            "triton-llm trace REQUEST_ID   # where one request's time went",
            "curl -s http://localhost:8002/metrics | grep -E 'requests_waiting|preemptions|kv_blocks_used_ratio'",
        ),
    ),
    "outage": Symptom(
        "No answers. The launcher restarts what died; what it cannot heal is a port that is taken, shared memory that "
        "is full, an artifact of another version, or a server that a load balancer has given up.",
        ("server", "ports", "artifacts", "versions", "shared memory", "files", "memory", "gpu"),
        (
            "curl -s http://localhost:8003/ready   # phase and reasons, by the launcher",
            "tail -50 run/tritonserver.log",
            "curl -s http://localhost:9000/metrics | grep breaker_state   # what the gateway has given up",
        ),
    ),
}
