"""What is promised beside speed, each measured in a run of its own: fairness, prefixes, copies, short among long.

A new scenario is a file with ``measure(setting, rounds, say) -> Figure`` and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.targets import Figure

__all__ = ["OF_PART_5", "SCENARIOS", "measure"]

Say = Callable[[str], None]

# name -> what it measures; its module has the same name.
SCENARIOS: Mapping[str, str] = {
    "fairness": "p95 TTFT of a tenant with 2 in flight, beside 64 long requests of another and beside 2",
    "prefix": "TTFT of a second request that shares a 512-token prefix, and of the first",
    "restart": "TTFT of an engine's first request, with a 512-token prefix that the last process knew, and without",
    "lookup": "decode time of copy-heavy text, without prompt lookup and with it",
    "among": "engine steps to the first token of a 16-token prompt while 8 prompts of 1,024 tokens are read",
    "beside": "TTFT of a 16-token prompt beside 8 decoding streams, and alone",
    "ready": "seconds until `make serve` is ready, where set-up and engine are there",
    "int4": "size of an INT4 artifact against FP16 weights, of a model whose matrices dominate",
    "agreement": "requests/s by NVIDIA's perf_analyzer and by this bench, the same load in turns",
}
# Those of the design's part 5, in its order.
OF_PART_5 = ("among", "beside", "prefix", "lookup", "ready", "int4", "agreement")


def measure(name: str, setting: Setting, rounds: int, say: Say) -> Figure:
    """Run one scenario in this process."""
    module = import_module(f"{__name__}.{name}")
    figure: Figure = module.measure(setting, rounds, say)
    return figure
