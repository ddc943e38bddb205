"""A runner as the build's quality check reads it: see ``python_llm.engine.Scorer``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from python_llm.artifact import Artifact
from python_llm.scoring.runner import Floats, ScoreRunner, load_runner
from python_llm.settings import ServingConfig

__all__ = ["RunnerScorer", "load_scorer"]


def load_scorer(artifact: Artifact, serving: ServingConfig) -> RunnerScorer:
    """The scorer factory of the kinds that a runner serves."""
    return RunnerScorer(load_runner(artifact, serving))


class RunnerScorer:
    """A text is one row of one run."""

    def __init__(self, runner: ScoreRunner) -> None:
        self._runner = runner

    def logits(self, token_ids: Sequence[int]) -> Iterator[Floats]:
        ids = np.asarray([list(token_ids)], np.int64)
        yield self._runner.logits(ids, np.ones_like(ids))[0]
