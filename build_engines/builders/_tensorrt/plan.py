"""ONNX → plan, on a GPU. Networks are strongly typed: the ONNX file itself says what is computed in which precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from build_engines.builders._tensorrt.shapes import Shapes
from build_engines.errors import BuildFailure, MissingRuntime, one_line

__all__ = ["QUANTISED", "build_plan", "plan_runner", "quantise"]

QUANTISED = ("int8", "fp8")  # by ModelOpt, with quantise and dequantise nodes in the graph


def quantise(source: Path, target: Path, quant: str, calibration: dict[str, Any]) -> None:
    """Put quantise and dequantise nodes into the graph, by scales that ModelOpt finds on ``calibration``.

    Raises:
        MissingRuntime: ModelOpt is not here.
    """
    try:
        from modelopt.onnx.quantization import quantize
    except ImportError as error:
        raise MissingRuntime(
            f"quant '{quant}': nvidia-modelopt is not installed here; it is in the GPU container: build there."
        ) from error
    quantize(
        onnx_path=str(source),
        quantize_mode=quant,
        calibration_data=calibration,
        output_path=str(target),
        use_external_data_format=True,
    )


def build_plan(source: Path, target: Path, shapes: Shapes, timing_cache: Path) -> None:
    """Write the plan; kernels that were timed before are not timed again.

    Raises:
        BuildFailure: TensorRT refuses the graph.
    """
    from polygraphy.backend.trt import CreateConfig, engine_from_network, network_from_onnx_path, save_engine
    from polygraphy.exception import PolygraphyException

    known = str(timing_cache) if timing_cache.is_file() else None
    config = CreateConfig(profiles=[shapes.profile()], load_timing_cache=known)
    try:
        network = network_from_onnx_path(str(source), strongly_typed=True)
        engine = engine_from_network(network, config, save_timing_cache=str(timing_cache))
    except (PolygraphyException, RuntimeError) as error:
        raise BuildFailure(f"engine '{target}': TensorRT refuses the graph ({one_line(error)}).") from error
    save_engine(engine, str(target))


def plan_runner(plan: Path, version: str) -> tuple[str, Any]:
    from polygraphy.backend.common import BytesFromPath
    from polygraphy.backend.trt import EngineFromBytes, TrtRunner

    return f"TensorRT {version}", TrtRunner(EngineFromBytes(BytesFromPath(str(plan))), name="tensorrt")
