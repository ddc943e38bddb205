"""The OpenVINO runner: its blocks can be carried elsewhere, and its errors are the caller's to mend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from python_llm.engines.paged.runner import ForwardBatch
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from python_llm.errors import CallerMistake
from python_llm.settings import KvPrecision, ServingConfig


def batch_of(tokens: list[int], past: int, blocks: list[int], wanted: list[int]) -> ForwardBatch:
    return ForwardBatch(
        token_ids=np.array(tokens, np.int64),
        positions=np.arange(past, past + len(tokens), dtype=np.int64),
        past_lens=np.array([past], np.int32),
        subsequence_begins=np.array([0, len(tokens)], np.int32),
        block_indices=np.array(blocks, np.int32),
        block_begins=np.array([0, len(blocks)], np.int32),
        wanted=np.array(wanted, np.int64),
    )


def forward(runner: OpenVinoRunner, batch: ForwardBatch) -> npt.NDArray[np.float32]:
    return runner.forward(batch).copy()  # valid until the next call


def runner_of(model_xml: Path, precision: KvPrecision = "f32", **options: Any) -> OpenVinoRunner:
    serving: dict[str, Any] = {"inference_precision": "f32", "kv_cache_bytes": 1 << 20, **options}
    return OpenVinoRunner(model_xml, ServingConfig(kv_cache_precision=precision, **serving))


@pytest.mark.parametrize("precision", ["u8", "f16", "f32"])
def test_exported_blocks_continue_elsewhere(model_xml: Path, precision: KvPrecision) -> None:
    runner = runner_of(model_xml, precision)
    prompt = np.random.default_rng(0).integers(0, 512, 70).tolist()
    forward(runner, batch_of(prompt, 0, [0, 1, 2], [69]))
    content = runner.export_blocks([0, 1, 2])
    here = forward(runner, batch_of([5], 70, [0, 1, 2], [0]))
    runner.import_blocks([9, 4, 7], content)
    there = forward(runner, batch_of([5], 70, [9, 4, 7], [0]))
    assert np.array_equal(here, there)
    wrong = forward(runner, batch_of([5], 70, [9, 9, 7], [0]))
    assert not np.array_equal(here, wrong)


def test_exported_blocks_are_copies(model_xml: Path) -> None:
    runner = runner_of(model_xml)
    forward(runner, batch_of([1, 2, 3], 0, [0], [2]))
    content = {name: array.copy() for name, array in runner.export_blocks([0]).items()}
    exported = runner.export_blocks([0])
    forward(runner, batch_of([4, 5, 6], 0, [0], [2]))
    assert all(np.array_equal(exported[name], content[name]) for name in content)


def test_another_process_can_continue(model_xml: Path) -> None:
    first, second = runner_of(model_xml), runner_of(model_xml)
    forward(first, batch_of([1, 2, 3], 0, [0], [2]))
    second.import_blocks([3], first.export_blocks([0]))
    here = forward(first, batch_of([4], 3, [0], [0]))
    assert np.array_equal(here, forward(second, batch_of([4], 3, [3], [0])))


def test_only_wanted_rows_come_back(model_xml: Path) -> None:
    runner = runner_of(model_xml)
    every = forward(runner, batch_of([1, 2, 3], 0, [0], [0, 1, 2]))
    assert every.shape == (3, runner.vocab_size)
    assert np.array_equal(forward(runner, batch_of([1, 2, 3], 0, [1], [2, 0])), every[[2, 0]])
    assert forward(runner, batch_of([1, 2, 3], 0, [2], [])).shape == (0, runner.vocab_size)


def test_chunks_give_the_logits_of_the_whole(model_xml: Path) -> None:
    runner = runner_of(model_xml)
    tokens = list(range(100, 140))
    whole = forward(runner, batch_of(tokens, 0, [0, 1], [39]))
    forward(runner, batch_of(tokens[:7], 0, [2], []))
    chunked = forward(runner, batch_of(tokens[7:], 7, [2, 3], [32]))
    np.testing.assert_allclose(chunked, whole, rtol=0, atol=1e-3 * float(np.abs(whole).max()))


def test_a_cache_without_room_is_refused_with_the_sizes(model_xml: Path) -> None:
    with pytest.raises(CallerMistake) as caught:
        runner_of(model_xml, kv_cache_bytes=1000)
    for word in ("kv_cache_bytes 1000", "16384", "32768"):
        assert word in str(caught.value)


_TWO_AND_A_SIGNAL = """
import os, signal, sys
from pathlib import Path
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from python_llm.settings import ServingConfig
seen = []
signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
first, second = (OpenVinoRunner(Path(sys.argv[1]), ServingConfig(kv_cache_bytes=1 << 20)) for _ in range(2))
del first
del second
os.kill(os.getpid(), signal.SIGTERM)
print(len(seen))
"""


def test_signals_reach_the_process_after_its_runners_are_gone(model_xml: Path) -> None:
    command = [sys.executable, "-c", _TWO_AND_A_SIGNAL, str(model_xml)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
