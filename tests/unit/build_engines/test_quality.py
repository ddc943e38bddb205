from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from build_engines import quality
from build_engines.build import BuildResult, build
from build_engines.builders.openvino import OpenvinoBuilder
from build_engines.errors import QualityLoss, StorageError
from build_engines.progress import Progress, Silent
from build_engines.quality import Comparison, measure, passages
from build_engines.quality_bounds import BOUNDS, Quality, QualityBounds
from build_engines.spec import EngineSpec
from python_llm.artifact import Artifact
from python_llm.settings import ServingConfig
from tests.unit.build_engines.damage import damage_scales

# Random weights have many near-ties; a sound int8 of them agrees in 0.9 of the positions.
INT8_OF_NOISE = QualityBounds(min_agreement=0.85, max_kl=0.03, max_perplexity_ratio=1.05)


def test_the_text_has_many_kinds_of_passages() -> None:
    texts = passages()
    assert len(texts) == 6
    assert all(len(text) > 600 for text in texts)
    whole = "\n".join(texts)
    for part in ("def schedule", "SELECT", "| Monday", "7 x 8 = 56", "Garten", "marché", "biblioteca", "春天", "Утром"):
        assert part in whole
    assert "===" not in whole


def test_the_sums_are_the_definitions() -> None:
    noise = np.random.default_rng(0)
    source = noise.normal(0, 3, (70, 11)).astype(np.float32)
    engine = source + noise.normal(0, 1, (70, 11)).astype(np.float32)
    ids = noise.integers(0, 11, 69).tolist()  # the last position's next token is not known
    comparison = Comparison()
    comparison.add(source[:50], engine[:50], ids[:50])
    comparison.add(source[50:], engine[50:], ids[50:])
    found = comparison.quality()
    p, q = (np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum(1, keepdims=True) for x in (source, engine))
    assert found.tokens == 70
    assert found.agreement == pytest.approx((p.argmax(1) == q.argmax(1)).mean(), abs=1e-5)
    assert found.kl == pytest.approx((p * np.log(p / q)).sum(1).mean(), rel=1e-4)
    for perplexity, chances in ((found.source_perplexity, p), (found.perplexity, q)):
        assert perplexity == pytest.approx(np.exp(-np.log(chances[np.arange(69), ids]).mean()), rel=1e-4)


def test_equal_logits_lose_nothing() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (8, 5)).astype(np.float32)
    comparison = Comparison()
    comparison.add(logits, logits + 4, [0] * 7)  # a constant is no difference
    found = comparison.quality()
    assert found.agreement == 1.0
    assert found.kl == pytest.approx(0, abs=1e-6)
    assert found.perplexity_ratio == pytest.approx(1.0)


def test_logits_that_are_no_numbers_miss_the_bounds() -> None:
    comparison = Comparison()
    comparison.add(np.zeros((2, 3), np.float32), np.full((2, 3), np.nan, np.float32), [0])
    assert len(comparison.quality().misses(BOUNDS["int4"])) >= 2


class _Counting(Silent):
    def __init__(self) -> None:
        self.done: list[int] = []
        self.total = 0

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        assert unit == " tokens"
        self.done.append(done)
        self.total = total


def test_an_exact_engine_of_the_same_weights_agrees(exported: BuildResult, tiny: Path) -> None:
    exact = ServingConfig(kv_cache_precision="f32", inference_precision="f32")
    progress = _Counting()
    found = measure(Artifact.open(exported.path), tiny, progress, exact)
    assert found is not None
    assert found.agreement == pytest.approx(1.0, abs=0.002)
    assert found.kl == pytest.approx(0.0, abs=1e-4)
    assert progress.done[-1] == progress.total == found.tokens
    assert progress.done == sorted(set(progress.done))


def test_the_manifest_records_what_was_measured(exported: BuildResult) -> None:
    record = Artifact.open(exported.path).manifest.quality
    assert record is not None
    assert record["served"] == {"kv_cache_precision": "u8", "inference_precision": "auto", "max_num_tokens": 256}
    assert record["measured"]["agreement"] > 0.8
    assert record["bounds"]["min_agreement"] == BOUNDS["none"].min_agreement


def _int8(tiny: Path, **knobs: Any) -> EngineSpec:
    return EngineSpec(**{"model": str(tiny), "name": "tiny", "quant": "int8", "bounds": INT8_OF_NOISE, **knobs})


def test_damaged_scales_of_one_layer_fail_the_build(tiny: Path, engines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = OpenvinoBuilder.build

    def damaging(
        self: OpenvinoBuilder, folder: Path, spec: EngineSpec, output: Path, scratch: Path, progress: Progress
    ) -> dict[str, Any]:
        record = sound(self, folder, spec, output, scratch, progress)
        assert damage_scales(output / "openvino_model.xml", "layers.1.mlp", factor=3.0) > 100
        return record

    assert build(_int8(tiny), engines / "sound").manifest.quality is not None
    monkeypatch.setattr(OpenvinoBuilder, "build", damaging)
    with pytest.raises(
        QualityLoss, match=r"artifact 'tiny' \(int8\).*top-1 agreement .* at least 0.85.*--allow-quality"
    ):
        build(_int8(tiny), engines)
    assert not (engines / "tiny").exists()


def test_an_accepted_loss_is_recorded_and_refused_to_who_does_not_accept_it(
    tiny: Path, copy_engine: Path, engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = Quality(tokens=10, agreement=0.5, kl=1.0, perplexity=20.0, source_perplexity=10.0)
    monkeypatch.setattr(quality, "measure", lambda *given, **knobs: lossy)
    spec = EngineSpec(model=str(tiny), name="tiny", engine="copy")
    with pytest.raises(QualityLoss, match=r"artifact 'tiny' \(int8\).*0\.5, at least 0\.92"):
        build(spec, engines)
    assert not (engines / "tiny").exists()
    record = build(replace(spec, allow_quality_loss=True), engines).manifest.quality
    assert record is not None
    assert len(record["missed"]) == 3
    with pytest.raises(QualityLoss):
        build(spec, engines)  # finished, and still not accepted
    assert build(replace(spec, allow_quality_loss=True), engines).reused
    own = QualityBounds(min_agreement=0.4, max_kl=2.0, max_perplexity_ratio=3.0)
    assert build(replace(spec, bounds=own), engines).reused


def test_a_build_without_the_check_is_another_build(tiny: Path, copy_engine: Path, engines: Path) -> None:
    spec = EngineSpec(model=str(tiny), name="tiny", engine="copy", check_quality=False)
    build(spec, engines)
    with pytest.raises(StorageError, match="other inputs"):
        build(replace(spec, check_quality=True), engines)


def test_a_kind_nobody_scores_is_not_measured(tiny: Path, copy_engine: Path, engines: Path) -> None:
    assert build(EngineSpec(model=str(tiny), engine="copy", quant="none"), engines).manifest.quality is None
