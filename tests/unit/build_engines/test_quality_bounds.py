from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from build_engines.errors import QualityLoss, SpecError
from build_engines.quality_bounds import BOUNDS, Quality, QualityBounds, check_quality, quality_record
from build_engines.spec import QUANTISATIONS, EngineSpec

BOUND = QualityBounds(min_agreement=0.9, max_kl=0.1, max_perplexity_ratio=1.1)
GOOD = Quality(tokens=10, agreement=0.9, kl=0.1, perplexity=11.0, source_perplexity=10.0)


SAME = Quality(tokens=10, agreement=1.0, kl=0.0, perplexity=10.0, source_perplexity=10.0)


def test_a_bound_that_is_just_met_holds() -> None:
    assert GOOD.misses(BOUND) == []


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"agreement": 0.85}, ["top-1 agreement 0.85, at least 0.9"]),
        ({"kl": 0.25}, ["mean KL 0.25, at most 0.1"]),
        ({"perplexity": 12.0}, ["perplexity ratio 1.2, at most 1.1"]),
        ({"kl": math.nan, "perplexity": math.nan}, ["mean KL nan, at most 0.1", "perplexity ratio nan, at most 1.1"]),
    ],
)
def test_a_miss_says_by_how_much(figures: dict[str, Any], said: list[str]) -> None:
    assert replace(SAME, **figures).misses(BOUND) == said


def test_the_caller_may_accept_a_loss_and_it_is_recorded() -> None:
    record = quality_record(replace(SAME, kl=0.25), BOUND, {"kv_cache_precision": "u8"})
    assert record["missed"] == ["mean KL 0.25, at most 0.1"]
    assert record["served"] == {"kv_cache_precision": "u8"}
    check_quality(record, BOUND, "artifact 'x'", allow_loss=True)
    with pytest.raises(QualityLoss) as caught:
        check_quality(record, BOUND, "artifact 'x'", allow_loss=False)
    assert all(part in str(caught.value) for part in ("artifact 'x'", "mean KL 0.25", "--allow-quality-loss"))
    assert caught.value.exit_code == 2


def test_what_was_not_measured_misses_nothing() -> None:
    check_quality(None, BOUND, "artifact 'x'", allow_loss=False)


def test_a_record_is_held_to_the_bounds_of_the_day() -> None:
    stricter = QualityBounds(min_agreement=0.99, max_kl=0.1, max_perplexity_ratio=1.1)
    with pytest.raises(QualityLoss, match=r"at least 0\.99"):
        check_quality(quality_record(GOOD, BOUND, {}), stricter, "artifact 'x'", allow_loss=False)


@pytest.mark.parametrize(
    ("knobs", "part"),
    [
        ({"min_agreement": 1.5}, "min_agreement 1.5"),
        ({"max_kl": -1.0}, "max_kl -1.0"),
        ({"max_perplexity_ratio": math.nan}, "max_perplexity_ratio nan"),
    ],
)
def test_bounds_that_cannot_be_are_refused(knobs: dict[str, Any], part: str) -> None:
    with pytest.raises(SpecError, match=part):
        QualityBounds(**{"min_agreement": 0.9, "max_kl": 0.1, "max_perplexity_ratio": 1.1, **knobs})


def test_every_quantisation_has_bounds_and_the_spec_may_set_its_own() -> None:
    assert set(BOUNDS) == set(QUANTISATIONS)
    assert EngineSpec(model="m", quant="int4").quality_bounds == BOUNDS["int4"]
    assert EngineSpec(model="m", bounds=BOUND).quality_bounds == BOUND


@pytest.mark.parametrize(
    ("quantised", "advice"), [(True, "choose a finer quant"), (False, "weights are not quantised")]
)
def test_only_a_quant_is_advised_to_be_finer(quantised: bool, advice: str) -> None:
    stricter = QualityBounds(min_agreement=1.0, max_kl=0.0, max_perplexity_ratio=0.0)
    with pytest.raises(QualityLoss, match=advice) as lost:
        check_quality(quality_record(GOOD, stricter, {}), stricter, "x", allow_loss=False, quantised=quantised)
    assert ("finer quant" in str(lost.value)) == quantised
