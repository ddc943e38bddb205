"""The KV store and long contexts over the real runner: stored blocks are bit for bit those of memory."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from collector import Collector
from python_llm.engine import EngineStats, GenerateRequest
from python_llm.engines.paged import kv_costs
from python_llm.engines.paged.engine import PagedEngine
from python_llm.engines.paged.kv_costs import LoadCosts
from python_llm.engines.paged.runner import ForwardBatch
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from python_llm.settings import KvPrecision, ServingConfig

Floats = npt.NDArray[np.float32]
PROMPT = tuple(np.random.default_rng(0).integers(3, 512, 140).tolist())  # four blocks of 32, and 12 tokens
LONG = 32 * 1024


class Recorder(OpenVinoRunner):
    """Keeps the logits of every step."""

    seen: list[Floats]

    def forward(self, batch: ForwardBatch) -> Floats:
        logits = super().forward(batch)
        self.seen.append(logits.copy())
        return logits


def answer(engine: PagedEngine, name: str, max_tokens: int = 6) -> Collector:
    sink = Collector()
    engine.submit(GenerateRequest(name, PROMPT, max_tokens), sink)
    sink.finished()
    return sink


def life(
    model_xml: Path, serving: ServingConfig, requests: int, **identity: str
) -> tuple[list[Collector], list[list[Floats]], EngineStats]:
    """Start, ask the same so many times, stop: answers, each one's logits, figures."""
    runner = Recorder(model_xml, serving)
    engine = PagedEngine(runner, serving, context_length=2048, identity={**runner.identity, **identity})
    sinks, logits = [], []
    for number in range(requests):
        runner.seen = []
        sinks.append(answer(engine, str(number)))
        logits.append(runner.seen)
    engine.close()
    return sinks, logits, engine.stats()


@pytest.mark.parametrize("precision", ["u8", "f16", "f32"])
def test_a_hit_from_disk_is_bit_for_bit_a_hit_from_memory(
    model_xml: Path, tmp_path: Path, precision: KvPrecision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv_costs, "_GUESSED_PREFILL_SECONDS", 60.0)  # however slow the disk is just now
    monkeypatch.setattr(LoadCosts, "learn_step", lambda *measured: None)
    serving = ServingConfig(
        kv_cache_bytes=1 << 22, kv_cache_precision=precision, kv_disk_bytes=1 << 24, kv_disk_path=str(tmp_path)
    )
    (cold, warm), (_, from_memory), _ = life(model_xml, serving, 2)
    (restarted,), (from_disk,), stats = life(model_xml, serving, 1)
    assert [s.finished().usage.cached_prompt_tokens for s in (cold, warm, restarted)] == [0, 128, 128]
    assert (stats.store_loads, stats.store_errors) == (4, 0)
    assert restarted.ids == warm.ids
    assert len(from_disk) == len(from_memory) == 6
    assert all(np.array_equal(a, b) for a, b in zip(from_disk, from_memory, strict=True))
    (stranger,), _, stats = life(model_xml, serving, 1, weights="another model's")
    assert (stranger.finished().usage.cached_prompt_tokens, stats.store_loads) == (0, 0)


def test_the_cache_is_sized_to_the_memory_that_is_left_and_what_could_be_used(model_xml: Path) -> None:
    serving = ServingConfig(kv_cache_bytes=0, max_running=3)
    assert OpenVinoRunner(model_xml, serving, context_length=100).block_count == 3 * 4  # blocks of 32 tokens


def _resident(array: npt.NDArray[Any]) -> int:
    """Bytes of the array's pages that are in memory."""
    page = mmap.PAGESIZE
    begin = array.ctypes.data // page * page
    pages = -(-(array.ctypes.data + array.nbytes - begin) // page)
    found = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(begin), ctypes.c_size_t(pages * page), found) == 0
    return sum(flag & 1 for flag in found) * page


def test_a_prompt_of_32k_tokens_works_and_takes_the_memory_that_was_computed(model_xml: Path) -> None:
    """The checkpoint says 2,048 positions; its rotary embedding has no end."""
    block_bytes = 2 * 2 * 2 * 32 * 16 * 4  # layers, keys and values, KV heads, tokens, head size, bytes
    budget = 10 * LONG // 32 * block_bytes  # and no tensor so small (32 MiB) that malloc may take it from a used heap
    serving = ServingConfig(
        kv_cache_bytes=budget, kv_cache_precision="f32", inference_precision="f32", max_num_tokens=2048
    )
    runner = OpenVinoRunner(model_xml, serving)
    assert runner.block_count == budget // block_bytes
    caches = list(runner._caches.values())
    resident: Callable[[], int] = lambda: sum(map(_resident, caches))  # noqa: E731
    before = resident()
    engine = PagedEngine(runner, serving, context_length=LONG + 64)
    sink = Collector()
    engine.submit(GenerateRequest("long", tuple(np.arange(LONG) % 509 + 3), 4), sink)
    usage = sink.finished().usage
    engine.close()
    assert (usage.prompt_tokens, usage.output_tokens, usage.blocks_allocated) == (LONG, 4, LONG // 32 + 1)
    needed = LONG // 32 * block_bytes  # and a little of one block more
    huge = 2 << 20  # a page at each end of each tensor, where the kernel gives huge ones
    assert before <= huge * len(caches)
    assert needed <= resident() <= needed + 2 * huge * len(caches)
    assert needed + 2 * huge * len(caches) < budget
