"""ONNX: a scorer's graph, input_ids and attention_mask → logits, with free batch and length.

The rooms are in _onnx/. Why this exporter, this opset and this INT8: docs/scoring.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.builders._loading import LOAD_ERRORS, check_loads
from build_engines.builders._onnx.compare import batches_of, compare, onnx_runner, torch_runner
from build_engines.builders._onnx.export import OPSET, export_onnx
from build_engines.builders._onnx.graph import check_graph, name_dimensions
from build_engines.builders._onnx.precision import to_int8
from build_engines.builders._onnx.source import load_source
from build_engines.drift import DRIFT, hold_drift, write_report
from build_engines.errors import CheckpointError, one_line
from build_engines.progress import Progress
from build_engines.quality import tokenised_passages
from build_engines.quiet import quiet_transformers
from build_engines.spec import EngineSpec

__all__ = ["BUILDER", "MODEL_FILE", "OnnxBuilder"]

MODEL_FILE = "model.onnx"


class OnnxBuilder:
    engine = "onnx"
    kind = "onnx"
    role = "scorer"
    packages = ("onnx", "onnxruntime", "onnxscript", "transformers", "torch")
    formats: Mapping[str, str] = {"none": "fp32", "fp16": "fp16", "int8": "int8, blocks of 32, asymmetric"}
    has_limits = False

    def check(self, folder: Path, config: Mapping[str, Any], *, trusted: bool = False) -> None:
        """Nothing: what torch can trace is known once it was traced."""

    def build(self, folder: Path, spec: EngineSpec, output: Path, scratch: Path, progress: Progress) -> dict[str, Any]:
        with quiet_transformers():
            progress.phase("export")
            check_loads(folder, progress, trusted=spec.trust_remote_code)
            quantised = spec.quant == "int8"
            exported = scratch / MODEL_FILE if quantised else output / MODEL_FILE
            source = self._export(folder, spec, exported)
            record = {"weights": spec.quant, "format": self.formats[spec.quant], "opset": OPSET}
            if quantised:
                progress.phase("compress to int8")
                record |= to_int8(exported, output / MODEL_FILE)
            progress.phase("compare")
            self._compare(source, folder, spec, output)
        return record

    def verify(self, output: Path, vocab_size: int) -> None:
        check_graph(output / MODEL_FILE, vocab_size)

    def _export(self, folder: Path, spec: EngineSpec, path: Path) -> Any:
        """Returns the checkpoint in fp32, with which the export is compared."""
        try:
            trusted = spec.trust_remote_code
            source = load_source(folder, "float32", trusted=trusted)
            exported = load_source(folder, "float16", trusted=trusted) if spec.quant == "fp16" else source
            export_onnx(exported, path, str(folder))
        except LOAD_ERRORS as error:
            raise CheckpointError(
                f"checkpoint '{folder}': the ONNX exporter refuses it ({type(error).__name__}: {one_line(error)}); "
                "choose another model."
            ) from error
        name_dimensions(path)
        return source

    def _compare(self, source: Any, folder: Path, spec: EngineSpec, output: Path) -> None:
        vocab_size = int(source.model.config.get_text_config().vocab_size)
        batches = batches_of(vocab_size, tokenised_passages(output / "tokenizer.json"))
        bounds = spec.drift or DRIFT[spec.quant]
        report = compare(torch_runner(source), onnx_runner(output / MODEL_FILE), batches, bounds)
        hold_drift(report, f"artifact '{spec.name}' ({spec.quant})", allow_loss=spec.allow_quality_loss)
        write_report(report, output)


BUILDER = OnnxBuilder()
