"""What the answers of a load say: percentiles, rates, and how many kept a promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np

from triton_llm_client.bench.load import Answer, Outcome

__all__ = ["Figures", "Slo", "Spread", "figures_of", "spread"]


@dataclass(frozen=True)
class Spread:
    """Of times in seconds."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


@dataclass(frozen=True)
class Slo:
    """What a request must keep, in seconds; None: anything will do. ``token``: the mean time of a token after the
    first."""

    first: float | None = None
    token: float | None = None
    total: float | None = None

    def kept(self, answer: Answer) -> bool:
        times = (
            (answer.ttft_seconds, self.first),
            (_per_token(answer), self.token),
            (answer.total_seconds, self.total),
        )
        return not answer.error and all(bound is None or value <= bound for value, bound in times)


@dataclass(frozen=True)
class Figures:
    """Of one load. Rates are a second of its wall time; ``goodput`` counts requests that kept the SLO."""

    requests: int
    seconds: float
    errors: dict[str, int]
    requests_per_second: float
    goodput_per_second: float
    kept_share: float
    output_tokens_per_second: float
    prompt_tokens_per_second: float
    first_token: Spread | None
    between_tokens: Spread | None
    per_token: Spread | None
    total: Spread | None
    late: Spread | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def figures_of(outcome: Outcome, slo: Slo) -> Figures:
    good, seconds = outcome.good, outcome.seconds
    kept = sum(slo.kept(answer) for answer in good)
    return Figures(
        requests=len(outcome.answers),
        seconds=seconds,
        errors=dict(Counter(answer.error for answer in outcome.answers if answer.error)),
        requests_per_second=len(good) / seconds,
        goodput_per_second=kept / seconds,
        kept_share=kept / len(outcome.answers),
        output_tokens_per_second=outcome.tokens_per_second,
        prompt_tokens_per_second=sum(answer.prompt_tokens for answer in good) / seconds,
        first_token=spread([answer.ttft_seconds for answer in good]),
        between_tokens=spread(list(chain.from_iterable(answer.gaps for answer in good))),
        per_token=spread([_per_token(answer) for answer in good if answer.tokens > 1]),
        total=spread([answer.total_seconds for answer in good]),
        late=spread([answer.late_seconds for answer in good]),
    )


def spread(values: Sequence[float]) -> Spread | None:
    """Percentiles by linear interpolation; None of nothing."""
    if not values:
        return None
    marks = np.percentile(np.asarray(values), (50, 90, 95, 99, 99.9))
    return Spread(len(values), float(np.mean(values)), *map(float, marks))


def _per_token(answer: Answer) -> float:
    """Seconds a token after the first takes on average; 0 of one token."""
    return (answer.total_seconds - answer.ttft_seconds) / (answer.tokens - 1) if answer.tokens > 1 else 0.0
