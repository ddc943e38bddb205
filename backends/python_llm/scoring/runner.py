"""The score runner: a model that gives the logits of a padded batch.

A new runner is one file of ``runners/`` and a row here; another distribution adds one as an entry point of the group
``triton_llm.score_runners``, whose name is the artifact's kind.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from python_llm.artifact import Artifact
from python_llm.errors import EngineFailure
from python_llm.settings import ServingConfig

__all__ = ["SCORED_KINDS", "Floats", "Ints", "ScoreRunner", "load_runner"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class ScoreRunner(Protocol):
    """One model on one device; one thread calls it."""

    def logits(self, input_ids: Ints, attention_mask: Ints) -> Floats:
        """Logits [batch, n, vocabulary] behind each token; [batch, n] in, 1 in the mask where there is a token.

        Rows do not see each other: a row's logits at its tokens are those it has alone, but for rounding.
        """


_RUNNERS = {
    "onnx": "python_llm.scoring.runners.onnx_runtime:load",
    "tensorrt-plan": "python_llm.scoring.runners.tensorrt_plan:load",
}
SCORED_KINDS = tuple(_RUNNERS)
_GROUP = "triton_llm.score_runners"


def load_runner(artifact: Artifact, serving: ServingConfig) -> ScoreRunner:
    """The runner of the artifact's kind.

    Raises:
        EngineFailure: there is none.
    """
    found: dict[str, Callable[[], Any]] = {point.name: point.load for point in entry_points(group=_GROUP)}
    if artifact.kind in found:
        factory = found[artifact.kind]()
    elif artifact.kind in _RUNNERS:
        module, _, name = _RUNNERS[artifact.kind].partition(":")
        factory = getattr(import_module(module), name)
    else:
        known = ", ".join(sorted({*found, *_RUNNERS}))
        raise EngineFailure("no_engine", f"artifact kind '{artifact.kind}': no runner scores it; known kinds: {known}.")
    runner: ScoreRunner = factory(artifact, serving)
    return runner
