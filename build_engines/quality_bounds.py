"""What an engine may lose against its source: the measured figures, their bounds, and the gate between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from build_engines.errors import QualityLoss, SpecError
from python_llm.records import read_record
from python_llm.settings import ServingConfig

__all__ = ["BOUNDS", "Quality", "QualityBounds", "check_quality", "quality_record"]


@dataclass(frozen=True, kw_only=True)
class QualityBounds:
    """The least that is accepted; why these defaults: docs/quality.md."""

    min_agreement: float
    max_kl: float
    max_perplexity_ratio: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_agreement <= 1.0:
            raise SpecError(f"min_agreement {self.min_agreement}: it must be from 0 to 1.")
        for name in ("max_kl", "max_perplexity_ratio"):
            if not getattr(self, name) >= 0.0:
                raise SpecError(f"{name} {getattr(self, name)}: it must be 0 or more.")


_WORDS: Mapping[str, QualityBounds] = {
    "none": QualityBounds(min_agreement=0.97, max_kl=0.005, max_perplexity_ratio=1.005),
    "fp16": QualityBounds(min_agreement=0.97, max_kl=0.005, max_perplexity_ratio=1.005),
    "int8": QualityBounds(min_agreement=0.92, max_kl=0.02, max_perplexity_ratio=1.02),
    "fp8": QualityBounds(min_agreement=0.92, max_kl=0.02, max_perplexity_ratio=1.02),
    "int4": QualityBounds(min_agreement=0.80, max_kl=0.20, max_perplexity_ratio=1.15),
}
# A GPU's formats are held to the word they refine; none of them was ever measured.
BOUNDS: Mapping[str, QualityBounds] = {
    **_WORDS,
    **dict.fromkeys(("int8_sq", "int8_wo"), _WORDS["int8"]),
    **dict.fromkeys(("int4_wo", "int4_awq", "w4a8_awq", "nvfp4"), _WORDS["int4"]),
}


@dataclass(frozen=True)
class Quality:
    """An engine against its source in fp32, over the tokens of the project's text."""

    tokens: int
    agreement: float  # share of positions whose likeliest next token is the source's
    kl: float  # mean KL divergence of the engine's distribution from the source's, in nats
    perplexity: float
    source_perplexity: float

    @property
    def perplexity_ratio(self) -> float:
        return self.perplexity / self.source_perplexity

    def misses(self, bounds: QualityBounds) -> list[str]:
        """Each bound that does not hold, and by how much; a figure that is no number holds none."""
        least, ratio = bounds.min_agreement, self.perplexity_ratio
        checks = (
            (self.agreement >= least, "top-1 agreement", self.agreement, "at least", least),
            (self.kl <= bounds.max_kl, "mean KL", self.kl, "at most", bounds.max_kl),
            (ratio <= bounds.max_perplexity_ratio, "perplexity ratio", ratio, "at most", bounds.max_perplexity_ratio),
        )
        return [f"{name} {value:.4g}, {rule} {bound:g}" for holds, name, value, rule, bound in checks if not holds]


def quality_record(quality: Quality, bounds: QualityBounds, served: Mapping[str, Any]) -> dict[str, Any]:
    """What artifact.json says of it. ``served``: the serving knobs under which it was measured."""
    return {
        "measured": asdict(quality),
        "bounds": asdict(bounds),
        "missed": quality.misses(bounds),
        "served": dict(served),
    }


_FINER = "choose a finer quant (for int4 also a smaller int4_ratio), or accept it with --allow-quality-loss."


def check_quality(
    record: Mapping[str, Any] | None, bounds: QualityBounds, subject: str, *, allow_loss: bool, quantised: bool = True
) -> None:
    """Hold an artifact's quality record to ``bounds``; nothing was measured where there is no record.

    ``quantised`` says whether there is a finer quant to advise.

    Raises:
        QualityLoss: a bound is missed and the caller does not accept it.
    """
    if record is None or allow_loss:
        return
    missed = read_record(Quality, record.get("measured"), f"{subject}, quality").misses(bounds)
    if missed:
        advice = _FINER if quantised else _unquantised()
        raise QualityLoss(f"{subject}: it loses too much against its source: {'; '.join(missed)}; {advice}")


def _unquantised() -> str:
    served = ServingConfig()
    return (
        "its weights are not quantised, so this is what it was measured under: kv_cache_precision "
        f"'{served.kv_cache_precision}' and inference_precision '{served.inference_precision}', as served by default "
        "(a model of random weights misses by that alone). Accept it with --allow-quality-loss, and serve it finer "
        "with 'triton-llm repo add NAME --set kv_cache_precision=f32 --set inference_precision=f32'."
    )
