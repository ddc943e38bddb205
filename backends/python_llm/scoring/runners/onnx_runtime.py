"""ONNX Runtime, on a CPU or a CUDA GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from python_llm.artifact import Artifact
from python_llm.errors import CallerMistake, EngineFailure
from python_llm.machine import usable_cpus
from python_llm.scoring.runner import Floats, Ints
from python_llm.settings import ServingConfig

__all__ = ["MODEL_FILE", "OnnxRuntimeRunner", "load"]

MODEL_FILE = "model.onnx"
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def load(artifact: Artifact, serving: ServingConfig) -> OnnxRuntimeRunner:
    """The runner factory of artifact kind ``onnx``."""
    return OnnxRuntimeRunner(artifact.path / MODEL_FILE, serving)


class OnnxRuntimeRunner:
    """See ``python_llm.scoring.runner``. ``providers`` says what it runs on.

    Raises:
        CallerMistake: ``scorer_device`` is cuda and this ONNX Runtime has no CUDA.
        EngineFailure: ONNX Runtime refuses the model.
    """

    def __init__(self, model: Path, serving: ServingConfig) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = serving.threads or usable_cpus()
        options.log_severity_level = 3  # errors alone: it warns of every node it leaves on the CPU
        options.enable_mem_pattern = False  # patterns are kept by shape, and no two batches have the same
        providers = _providers(onnxruntime.get_available_providers(), serving.scorer_device)
        try:
            self._session = onnxruntime.InferenceSession(str(model), options, providers=providers)
        except Exception as error:  # the library's own kinds derive from nothing narrower
            raise EngineFailure(
                "engine_not_started",
                f"engine '{model}': ONNX Runtime {onnxruntime.__version__} refuses it ({error}); build it again with "
                "--force.",
            ) from error
        self.providers: list[str] = self._session.get_providers()

    def logits(self, input_ids: Ints, attention_mask: Ints) -> Floats:
        feed = {"input_ids": input_ids, "attention_mask": attention_mask}
        found: Floats = self._session.run(["logits"], feed)[0]
        return found


def _providers(available: list[str], device: str) -> list[Any]:
    if device == "cuda" and _CUDA not in available:
        raise CallerMistake(
            f"scorer_device 'cuda': this ONNX Runtime has {', '.join(available)}; install onnxruntime-gpu of the same "
            "version in its place, or say cpu."
        )
    return [_CUDA, _CPU] if device != "cpu" and _CUDA in available else [_CPU]
