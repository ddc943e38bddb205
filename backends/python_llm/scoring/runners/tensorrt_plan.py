"""A TensorRT plan, through Polygraphy's runner. Never run on a GPU: docs/scoring.md says what stands behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

from python_llm.artifact import Artifact
from python_llm.errors import EngineFailure
from python_llm.scoring.runner import Floats, Ints
from python_llm.settings import ServingConfig

__all__ = ["PLAN_FILE", "TensorrtPlanRunner", "load"]

PLAN_FILE = "model.plan"


def load(artifact: Artifact, serving: ServingConfig) -> TensorrtPlanRunner:
    """The runner factory of artifact kind ``tensorrt-plan``.

    Raises:
        EngineFailure: TensorRT refuses the plan.
    """
    from polygraphy.backend.common import BytesFromPath
    from polygraphy.backend.trt import EngineFromBytes, TrtRunner
    from polygraphy.exception import PolygraphyException

    file = artifact.path / PLAN_FILE
    runner = TrtRunner(EngineFromBytes(BytesFromPath(str(file))))
    try:
        runner.activate()
    except (PolygraphyException, RuntimeError) as error:
        raise EngineFailure(
            "engine_not_started",
            f"engine '{file}': TensorRT refuses it ({error}); a plan runs on the kind of GPU that built it: build it "
            "again there.",
        ) from error
    return TensorrtPlanRunner(runner)


class TensorrtPlanRunner:
    """See ``python_llm.scoring.runner``; ``runner`` is an active ``polygraphy.backend.trt.TrtRunner``."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def logits(self, input_ids: Ints, attention_mask: Ints) -> Floats:
        found = self._runner.infer({"input_ids": input_ids, "attention_mask": attention_mask}, check_inputs=False)
        logits: Floats = np.asarray(found["logits"], np.float32)
        return logits
