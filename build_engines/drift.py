"""How far an engine's logits may be from their reference, and what Polygraphy found: the bounds and the report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from build_engines.errors import QualityLoss, SpecError
from python_llm.records import read_record

__all__ = ["DRIFT", "REPORT", "Drift", "DriftBounds", "DriftReport", "hold_drift", "read_report", "write_report"]

REPORT = "polygraphy.json"
STATISTICS = ("elemwise", "max", "mean", "median")


@dataclass(frozen=True, kw_only=True)
class DriftBounds:
    """A comparison passes where the statistic of the differences is within one of the two bounds.

    ``elemwise``: each logit for itself; else the statistic over all logits of one batch, as Polygraphy computes it.
    """

    statistic: str = "elemwise"
    absolute: float
    relative: float

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise SpecError(f"drift statistic '{self.statistic}': it must be one of {', '.join(STATISTICS)}.")
        for name in ("absolute", "relative"):
            if not getattr(self, name) >= 0.0:
                raise SpecError(f"drift {name} {getattr(self, name)}: it must be 0 or more.")


# By quantisation; why these: docs/scoring.md.
DRIFT: Mapping[str, DriftBounds] = {
    "none": DriftBounds(absolute=2e-3, relative=1e-3),
    "fp16": DriftBounds(absolute=0.25, relative=0.02),
    "int8": DriftBounds(statistic="mean", absolute=0.5, relative=0.02),
    "fp8": DriftBounds(statistic="mean", absolute=0.5, relative=0.02),
}


@dataclass(frozen=True)
class Drift:
    """Differences of one batch: of all its logits, the largest and the mean, absolute and relative."""

    inputs: str  # what was read: "random 2 x 9"
    max_absolute: float
    max_relative: float
    mean_absolute: float
    mean_relative: float
    passed: bool


@dataclass(frozen=True)
class DriftReport:
    reference: str  # "PyTorch fp32"
    engine: str  # "ONNX Runtime 1.32.0"
    polygraphy: str  # its version
    bounds: DriftBounds
    batches: tuple[Drift, ...]

    @property
    def passed(self) -> bool:
        return all(batch.passed for batch in self.batches)


def hold_drift(report: DriftReport, subject: str, *, allow_loss: bool) -> None:
    """Raises QualityLoss where a batch is beyond the bounds and the caller does not accept it."""
    if report.passed or allow_loss:
        return
    worst = max((batch for batch in report.batches if not batch.passed), key=lambda batch: batch.max_absolute)
    bounds = report.bounds
    raise QualityLoss(
        f"{subject}: its logits drift from {report.reference}'s: {worst.inputs}: largest difference "
        f"{worst.max_absolute:.3g}, mean {worst.mean_absolute:.3g}; the {bounds.statistic} difference may be "
        f"{bounds.absolute:g} absolute or {bounds.relative:g} relative; choose a finer quant, or accept it with "
        "--allow-quality-loss."
    )


def write_report(report: DriftReport, folder: Path) -> None:
    (folder / REPORT).write_text(json.dumps(asdict(report), indent=2) + "\n", "utf-8")


def read_report(folder: Path) -> DriftReport:
    return read_record(DriftReport, json.loads((folder / REPORT).read_text("utf-8")), f"'{folder / REPORT}'")
