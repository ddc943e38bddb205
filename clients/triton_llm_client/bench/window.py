"""What server and machine say of the time in which a load ran."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections import defaultdict
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from triton_llm_client.bench.idle import family_used

__all__ = ["Window", "scrape"]

_EVERY_SECONDS = 1.0
_PUBLISHED_SECONDS = 1.5  # the generator publishes once a second
_GAUGES = ("requests_running", "requests_waiting", "kv_blocks_used_ratio")
_COUNTERS = (
    "prompt_tokens_total",
    "output_tokens_total",
    "engine_steps_total",
    "preemptions_total",
    "prefix_tokens_hit_total",
    "prefix_tokens_seen_total",
)
_MEANS = ("time_to_first_token_seconds", "inter_token_latency_seconds", "queue_time_seconds", "e2e_latency_seconds")
_GPU = "nv_gpu_"
Series = dict[str, float]


def scrape(url: str, model: str) -> Series:
    """Name -> value of the model's own series, summed over labels, and of GPUs. Raises OSError."""
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    found: Series = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            ours = sample.name.startswith(_GPU) or sample.labels.get("model") == model
            if ours and not sample.name.endswith("_bucket"):
                found[sample.name] += sample.value
    return dict(found)


@dataclass
class Window:
    """A block in which the server's metrics and this machine are watched; ``told()`` afterwards.

    ``metrics_url`` None: the machine alone. ``model``: the Triton model whose series are read. CPU and memory are of
    this process (the client) and of its descendants (a server that the bench started); those of a server elsewhere
    cannot be seen from here.
    """

    metrics_url: str | None
    model: str
    _gauges: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _done: threading.Event = field(default_factory=threading.Event)
    _told: dict[str, Any] = field(default_factory=dict)
    _resident: int = 0

    def __enter__(self) -> Window:
        if self.metrics_url:
            time.sleep(_PUBLISHED_SECONDS)  # what ran before must not count as part of this
        self._before = self._look()
        self._used = family_used(descendants_alone=True).cpu_seconds
        self._own = time.process_time()
        self._started = time.perf_counter()
        self._thread = threading.Thread(target=self._watch, name="bench-window", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self._started
        servers = family_used(descendants_alone=True)
        self._told["client_cpu_per_second"] = (time.process_time() - self._own) / seconds
        self._told["server_cpu_per_second"] = max(0.0, servers.cpu_seconds - self._used) / seconds
        self._told["server_resident_mb"] = max(self._resident, servers.resident_bytes) / 1e6
        self._done.set()
        self._thread.join()
        if kind is None and self.metrics_url:
            time.sleep(_PUBLISHED_SECONDS)
            self._compare(self._before, self._look())

    def told(self) -> dict[str, Any]:
        """Figures by name; what could not be read is absent."""
        return dict(self._told)

    def _watch(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            self._resident = max(self._resident, family_used(descendants_alone=True).resident_bytes)
            found = self._look()
            for name in _GAUGES:
                if (value := found.get(f"triton_llm_{name}")) is not None:
                    self._gauges[name].append(value)
            for name, value in found.items():
                if name.startswith(_GPU):
                    self._gauges[name].append(value)

    def _look(self) -> Series:
        try:
            return scrape(self.metrics_url, self.model) if self.metrics_url else {}
        except OSError as error:
            self._told["metrics_missing"] = str(error)
            return {}

    def _compare(self, before: Series, after: Series) -> None:
        for name in _COUNTERS:
            if (full := f"triton_llm_{name}") in after:
                self._told[name.removesuffix("_total")] = after[full] - before.get(full, 0.0)
        for name in _MEANS:
            count = after.get(f"triton_llm_{name}_count", 0.0) - before.get(f"triton_llm_{name}_count", 0.0)
            if count > 0:
                total = after[f"triton_llm_{name}_sum"] - before.get(f"triton_llm_{name}_sum", 0.0)
                self._told[f"mean_{name}"] = total / count
        for name, values in self._gauges.items():
            self._told[f"mean_{name}"] = sum(values) / len(values)
            self._told[f"max_{name}"] = max(values)
