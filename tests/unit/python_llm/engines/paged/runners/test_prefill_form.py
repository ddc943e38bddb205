"""Two forms of a model over the same blocks: which steps take which, and when there is a second one at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from python_llm.engines.paged.runner import ForwardBatch
from python_llm.engines.paged.runners import openvino, openvino_options
from python_llm.engines.paged.runners.openvino import PREFILL_TOKENS, OpenVinoRunner
from python_llm.engines.paged.runners.openvino_options import prefill_properties, properties
from python_llm.settings import ServingConfig
from tests.unit.python_llm.engines.paged.runners.test_openvino_runner import batch_of, forward

WITH_AMX = {"vectors": ["amx_bf16", "amx_tile", "avx2"]}
UNIFORM = ServingConfig(inference_precision="uniform", kv_cache_bytes=1 << 20)
AUTO = ServingConfig(kv_cache_bytes=1 << 20)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    file = tmp_path / "openvino_model.bin"
    file.write_bytes(bytes(1000))
    return file


def second(weights: Path, quantised: bool = True, **knobs: Any) -> dict[str, Any] | None:
    serving = ServingConfig(**knobs)
    return prefill_properties(serving, properties(serving, quantised), weights)


@pytest.fixture
def amx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_options, "_cpu_kind", lambda: WITH_AMX)
    monkeypatch.setattr(openvino_options, "free_bytes", lambda: 10_000)


@pytest.mark.usefixtures("amx")
def test_prompts_are_read_in_bf16_where_the_cpu_has_matrix_units(weights: Path) -> None:
    told = second(weights)
    assert told is not None
    assert told["INFERENCE_PRECISION_HINT"] == "bf16"
    assert told["KV_CACHE_PRECISION"] == "u8"


@pytest.mark.usefixtures("amx")
@pytest.mark.parametrize(
    "knobs", [{"inference_precision": "uniform"}, {"inference_precision": "f32"}, {"kv_cache_precision": "f16"}]
)
def test_one_form_does_for_all_where_it_is_asked_for_or_blocks_differ(weights: Path, knobs: dict[str, Any]) -> None:
    assert second(weights, **knobs) is None


@pytest.mark.usefixtures("amx")
def test_unquantised_weights_have_one_form(weights: Path) -> None:
    assert second(weights, quantised=False) is None


def test_without_matrix_units_there_is_one_form(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_options, "_cpu_kind", lambda: {"vectors": ["avx2", "avx512_bf16"]})
    assert second(weights) is None


@pytest.mark.usefixtures("amx")
def test_weights_that_fill_the_memory_are_there_once(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_options, "free_bytes", lambda: 9_999)
    assert second(weights) is None, "1,250 of 9,999 bytes are more than an eighth"


def two_forms(model_xml: Path, monkeypatch: pytest.MonkeyPatch) -> OpenVinoRunner:
    """A second form of the same arithmetic: which was taken shows in nothing but who ran."""
    monkeypatch.setattr(openvino, "prefill_properties", lambda serving, told, weights: dict(told))
    return OpenVinoRunner(model_xml, AUTO, quantised=True)


def test_both_forms_read_and_write_the_same_blocks(model_xml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = OpenVinoRunner(model_xml, UNIFORM, quantised=True)
    two = two_forms(model_xml, monkeypatch)
    assert (one.has_prefill_form, two.has_prefill_form) == (False, True)
    prompt = np.random.default_rng(0).integers(0, 512, 90).tolist()
    steps = [batch_of(prompt, 0, [0, 1, 2], [89]), batch_of([5], 90, [0, 1, 2], [0])]
    for step in steps:
        assert np.array_equal(forward(one, step), forward(two, step))
    assert one.identity != two.identity, "stored blocks of the one are not loaded by the other"


class Counting:
    """An infer request that counts."""

    def __init__(self, request: Any) -> None:
        self._request, self.count = request, 0

    def infer(self) -> None:
        self.count += 1
        self._request.infer()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)


@pytest.mark.parametrize(
    ("tokens", "wanted", "second_form"),
    [
        (PREFILL_TOKENS, [PREFILL_TOKENS - 1], True),
        (PREFILL_TOKENS, [], True),
        (PREFILL_TOKENS - 1, [0], False),
        (PREFILL_TOKENS, [0, 1], False),  # logits of many tokens: a prompt's log-probs, or guesses
        (1, [0], False),
    ],
)
def test_the_second_form_reads_prompts_alone(
    model_xml: Path, monkeypatch: pytest.MonkeyPatch, tokens: int, wanted: list[int], second_form: bool
) -> None:
    runner = two_forms(model_xml, monkeypatch)
    counting = Counting(runner._prefill)
    runner._prefill = counting
    runner.forward(batch_of([7] * tokens, 0, [0, 1], wanted))
    assert counting.count == int(second_form)


def test_many_single_tokens_are_no_prompt(model_xml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = two_forms(model_xml, monkeypatch)
    counting = Counting(runner._prefill)
    runner._prefill = counting
    count = PREFILL_TOKENS
    each = np.arange(count, dtype=np.int32)
    runner.forward(
        ForwardBatch(
            token_ids=np.full(count, 7, np.int64),
            positions=np.zeros(count, np.int64),
            past_lens=np.zeros(count, np.int32),
            subsequence_begins=np.arange(count + 1, dtype=np.int32),
            block_indices=each % runner.block_count,
            block_begins=np.arange(count + 1, dtype=np.int32),
            wanted=each.astype(np.int64),
        )
    )
    assert counting.count == 0


@pytest.mark.skipif("amx_bf16" not in openvino_options._cpu_kind()["vectors"], reason="this CPU has no AMX")
def test_bf16_and_quantised_activations_go_on_from_each_others_blocks(model_xml: Path) -> None:
    one = OpenVinoRunner(model_xml, UNIFORM, quantised=True)
    two = OpenVinoRunner(model_xml, AUTO, quantised=True)
    assert two.has_prefill_form
    prompt = np.random.default_rng(0).integers(0, 512, 90).tolist()
    for step in (batch_of(prompt, 0, [0, 1, 2], [89]), batch_of([5], 90, [0, 1, 2], [0])):
        expected, found = forward(one, step), forward(two, step)
        assert not np.array_equal(expected, found)
        np.testing.assert_allclose(found, expected, rtol=0, atol=0.03 * float(np.abs(expected).max()))
