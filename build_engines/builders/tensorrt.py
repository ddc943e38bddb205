"""TensorRT plans for the scorer: the ONNX export, folded, built through Polygraphy on the GPU it will run on.

The rooms are in _tensorrt/. Never built on a GPU: docs/scoring.md says what stands behind each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from build_engines.builders import GpuBuilder, Said
from build_engines.builders._loading import check_loads
from build_engines.builders._onnx.compare import batches_of, compare, onnx_runner
from build_engines.builders._onnx.export import export_onnx
from build_engines.builders._onnx.graph import check_graph, name_dimensions
from build_engines.builders._onnx.source import load_source
from build_engines.builders._tensorrt.dry_run import dry_run, enter_container
from build_engines.builders._tensorrt.plan import QUANTISED, build_plan, plan_runner, quantise
from build_engines.builders._tensorrt.shapes import Shapes, shapes_of
from build_engines.builders._tensorrt.simplify import simplify
from build_engines.drift import DRIFT, hold_drift, write_report
from build_engines.errors import BuildFailure, CheckpointError, MissingRuntime, SpecError
from build_engines.json_files import read_object
from build_engines.plan.source import find_config
from build_engines.progress import Progress
from build_engines.quality import tokenised_passages
from build_engines.quiet import quiet_transformers
from build_engines.spec import DEFAULT_MODEL, EngineSpec
from build_engines.spec_gpu import GPU_KNOBS
from build_engines.stamp import Stamp
from python_llm.gpus import visible_gpus

__all__ = ["BUILDER", "PLAN_FILE", "TensorrtBuilder"]

PLAN_FILE = "model.plan"
_ONNX = "model.onnx"
_KNOBS = ("gpu",)  # of the GPU knobs, those that mean something here


class TensorrtBuilder:
    engine = "tensorrt"
    kind = "tensorrt-plan"
    role = "scorer"
    packages: tuple[str, ...] = (
        "tensorrt",
        "polygraphy",
        "onnx",
        "onnxruntime",
        "onnxscript",
        "transformers",
        "torch",
    )
    formats: Mapping[str, str] = {"none": "fp32", "fp16": "fp16", "int8": "int8, Q/DQ", "fp8": "fp8, Q/DQ"}
    has_limits = True

    def fitting(self, spec: EngineSpec, folder: Path) -> GpuBuilder:
        """This builder for every source."""
        return self

    def require(self, spec: EngineSpec) -> None:
        """Refuse to build where TensorRT or a GPU is not."""
        _refuse_knobs(spec)
        try:
            version("tensorrt")
        except PackageNotFoundError as error:
            raise MissingRuntime(
                "engine 'tensorrt': TensorRT is not installed here; a plan is built on the GPU that runs it, in the "
                f"container:\n  {enter_container(spec)}\nor see the whole plan here with --dry-run (DRY_RUN=1)."
            ) from error
        if not visible_gpus():
            raise MissingRuntime(
                "engine 'tensorrt': zero GPUs are visible; a plan is built by timing kernels on one: start the "
                "container with --gpus all, on a machine that has them."
            )

    def dry_run(self, spec: EngineSpec, engines: Path) -> Said:
        """The whole plan, of a config.json alone."""
        _refuse_knobs(spec)
        if spec.model == DEFAULT_MODEL or spec.model.endswith(".gguf"):
            raise CheckpointError(
                f"model '{spec.model}': a GGUF, which a dry run does not open; give the Hugging Face folder or hub id "
                "(for smollm2: HuggingFaceTB/SmolLM2-135M-Instruct)."
            )
        _, config = find_config(spec.model, spec.revision, offline=spec.offline)
        return dry_run(spec, engines, _shapes(spec, config), visible_gpus())

    def check(self, folder: Path, config: Mapping[str, Any], *, trusted: bool = False) -> None:
        """Nothing: what torch can trace is known once it was traced."""

    def build(self, folder: Path, spec: EngineSpec, output: Path, scratch: Path, progress: Progress) -> dict[str, Any]:
        shapes = _shapes(spec, read_object(folder / "config.json"))
        with quiet_transformers():
            progress.phase("export")
            check_loads(folder, progress, trusted=spec.trust_remote_code)
            exported = scratch / _ONNX
            source = load_source(
                folder, "float16" if spec.quant == "fp16" else "float32", trusted=spec.trust_remote_code
            )
            export_onnx(source, exported, str(folder))
            name_dimensions(exported)
        vocab_size = int(source.model.config.get_text_config().vocab_size)
        check_graph(exported, vocab_size)
        batches = batches_of(vocab_size, tokenised_passages(output / "tokenizer.json"))
        batches = {name: feed for name, feed in batches.items() if shapes.takes(*feed["input_ids"].shape)}
        progress.phase("simplify")
        ready = self._ready(exported, spec, scratch, batches)
        progress.phase("build the plan")
        build_plan(ready, output / PLAN_FILE, shapes, scratch.parents[1] / ".timing.cache")
        progress.phase("compare")
        engine = plan_runner(output / PLAN_FILE, version("tensorrt"))
        report = compare(onnx_runner(exported), engine, batches, spec.drift or DRIFT[spec.quant])
        hold_drift(report, f"artifact '{spec.name}' ({spec.quant})", allow_loss=spec.allow_quality_loss)
        write_report(report, output)
        return {"weights": spec.quant, "format": self.formats[spec.quant]}

    def verify(self, output: Path, vocab_size: int) -> None:
        """The comparison ran it already."""
        if not (output / PLAN_FILE).is_file():
            raise BuildFailure(f"engine '{output}': no {PLAN_FILE}; TensorRT wrote none.")

    def stamp(self, spec: EngineSpec, folder: Path, output: Path) -> Stamp:
        gpus = visible_gpus()
        capability = {"compute_capability": gpus[0].capability} if gpus else {}
        shapes = _shapes(spec, read_object(folder / "config.json"))
        return Stamp(builder=capability, limits=shapes.limits())

    def _ready(self, exported: Path, spec: EngineSpec, scratch: Path, batches: dict[str, Any]) -> Path:
        """The graph that TensorRT reads: quantised where that is asked, and folded."""
        source = exported
        if spec.quant in QUANTISED:
            source = scratch / "quantised.onnx"
            quantise(exported, source, spec.quant, dict(next(reversed(batches.values()))))
        simplify(source, scratch / "ready.onnx")
        return scratch / "ready.onnx"


BUILDER = TensorrtBuilder()


def _shapes(spec: EngineSpec, config: Mapping[str, Any]) -> Shapes:
    return shapes_of(spec, int(config.get("max_position_embeddings") or config.get("n_positions") or 2048))


def _refuse_knobs(spec: EngineSpec) -> None:
    for name, default in GPU_KNOBS.items():
        if name not in _KNOBS and (value := getattr(spec, name)) != default:
            raise SpecError(f"{name} '{value}': the tensorrt engine has no such knob; leave it out.")
