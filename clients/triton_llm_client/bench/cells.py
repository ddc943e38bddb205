"""One subject at one level, over all rounds, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from statistics import median
from typing import Any

import numpy as np

from triton_llm_client.bench.load import Outcome

__all__ = ["cell_record"]

_QUANTILES = 51  # of the gaps between tokens: too many to write all of them down


def cell_record(subject: str, in_flight: int, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Lists have an entry a round; ``gap_quantiles`` are 0, 2, … 100 % of all gaps, in seconds."""
    gaps = list(chain.from_iterable(answer.gaps for outcome in outcomes for answer in outcome.answers))
    return {
        "subject": subject,
        "in_flight": in_flight,
        "seconds": [round(outcome.seconds, 4) for outcome in outcomes],
        "tokens_per_second": [round(outcome.tokens_per_second, 2) for outcome in outcomes],
        "ttft_median": [round(median(a.ttft_seconds for a in outcome.answers), 5) for outcome in outcomes],
        "gap_median": [_gap(outcome) for outcome in outcomes],
        "total_median": [round(median(a.total_seconds for a in outcome.answers), 5) for outcome in outcomes],
        "ttft_seconds": [[round(a.ttft_seconds, 4) for a in outcome.answers] for outcome in outcomes],
        "total_seconds": [[round(a.total_seconds, 4) for a in outcome.answers] for outcome in outcomes],
        "gap_quantiles": [round(float(at), 6) for at in np.quantile(gaps, np.linspace(0, 1, _QUANTILES))]
        if gaps
        else [],
    }


def _gap(outcome: Outcome) -> float | None:
    """The mean time of a token after the first, by the median request; None where the subject does not tell times."""
    means = [sum(answer.gaps) / len(answer.gaps) for answer in outcome.answers if answer.gaps]
    return round(median(means), 6) if means else None
