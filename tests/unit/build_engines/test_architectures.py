"""Each architecture, built unquantised and run by the paged runner in f32, computes transformers' logits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from build_engines.build import BuildResult, build
from build_engines.builders import _paged_form, builder_names
from build_engines.builders.openvino import BUILDER
from build_engines.errors import BuildFailure, CheckpointError
from build_engines.spec import EngineSpec
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from tests.unit.build_engines.architectures import ARCHITECTURES, EXACT, paged_logits, reference_logits
from tiny_checkpoint import make_tiny_checkpoint

LENGTHS = (75, 40, 9, 33, 64)


@dataclass(frozen=True)
class Built:
    result: BuildResult
    runner: OpenVinoRunner
    prompts: list[npt.NDArray[np.int64]]
    expected: list[npt.NDArray[np.float32]]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = make_tiny_checkpoint(tmp_path_factory.mktemp("model") / "checkpoint", **ARCHITECTURES[request.param])
    spec = EngineSpec(model=str(folder), name="tiny", quant="none", check_quality=False)
    result = build(spec, folder.parent / "engines")
    noise = np.random.default_rng(0)
    prompts = [noise.integers(3, 512, length) for length in LENGTHS]
    runner = OpenVinoRunner(result.path / "openvino_model.xml", EXACT)
    return Built(result, runner, prompts, reference_logits(folder, prompts))


def _difference(found: list[npt.NDArray[np.float32]], expected: list[npt.NDArray[np.float32]]) -> float:
    assert [rows.shape for rows in found] == [rows.shape for rows in expected]
    largest = max(float(np.abs(rows).max()) for rows in expected)
    return max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True)) / largest


def test_alone_whole(built: Built) -> None:
    assert _difference(paged_logits(built.runner, built.prompts[:1], 75, decoded=0), built.expected[:1]) <= 1e-3


def test_alone_in_chunks_and_decoded(built: Built) -> None:
    assert _difference(paged_logits(built.runner, built.prompts[:1], 19), built.expected[:1]) <= 1e-3


def test_a_ragged_batch_in_chunks_and_decoded(built: Built) -> None:
    assert _difference(paged_logits(built.runner, built.prompts, 13), built.expected) <= 1e-3


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"architecture": "mpt", "vocab_size": 64}, ["architecture 'mpt'", "ALiBi"]),
        ({"architecture": "gemma2", "attn_logit_softcapping": 50.0}, ["attn_logit_softcapping 50.0", "soft-cap"]),
    ],
)
def test_what_would_be_wrong_is_refused_by_name(options: dict[str, Any], parts: list[str]) -> None:
    config = {"model_type": options["architecture"], **options}
    with pytest.raises(CheckpointError) as caught:
        BUILDER.check(Path("some/model"), config)
    assert all(part in str(caught.value) for part in ["some/model", *parts, "another model"])


def test_helpers_beside_the_builders_are_no_builders() -> None:
    assert not [name for name in builder_names() if name.startswith("_")]


def test_gemma_2_has_its_soft_cap_even_where_its_configuration_is_silent() -> None:
    with pytest.raises(CheckpointError, match="soft-cap"):
        BUILDER.check(Path("some/model"), {"model_type": "gemma2"})


def test_a_paged_form_that_computes_something_else_is_refused(
    exported: BuildResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    stateful = _paged_form._stateful_logits

    def other(ir: Path) -> tuple[npt.NDArray[np.float32], int]:
        logits, vocab_size = stateful(ir)
        return np.roll(logits, 1, axis=0), vocab_size

    monkeypatch.setattr(_paged_form, "_stateful_logits", other)
    with pytest.raises(BuildFailure, match=r"its paged form differ from the model's by .*at most 0\.001 is rounding"):
        BUILDER.verify(exported.path, 512)
