"""The ONNX builder: what the graph is, what the export and the comparison refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from build_engines.build import build
from build_engines.builders import check_spec, find_builder
from build_engines.builders._onnx.compare import batches_of, compare, onnx_runner, torch_runner
from build_engines.builders._onnx.export import export_onnx
from build_engines.builders._onnx.graph import check_graph, name_dimensions
from build_engines.drift import DRIFT, Drift, DriftBounds, DriftReport, hold_drift, read_report, write_report
from build_engines.errors import BuildFailure, CheckpointError, QualityLoss, SpecError
from build_engines.spec import EngineSpec


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(64, 16)
        self.last = torch.nn.Linear(16, 64)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.last(self.table(input_ids) * attention_mask[..., None])
        return logits


@torch.library.custom_op("triton_llm_test::unknown", mutates_args=())
def unknown(value: torch.Tensor) -> torch.Tensor:
    return value + 1


@unknown.register_fake
def _(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(value)


class WithUnknown(Small):
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = unknown(super().forward(input_ids, attention_mask))
        return logits


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Small, Path]:
    module = Small().eval()
    path = tmp_path_factory.mktemp("small") / "model.onnx"
    export_onnx(module, path, "small")
    name_dimensions(path)
    return module, path


def test_batch_and_length_are_free_and_the_checker_agrees(small: tuple[Small, Path]) -> None:
    check_graph(small[1], 64)
    assert small[1].with_name("model.onnx.data").is_file()
    with pytest.raises(BuildFailure, match=r"'logits' is \('FLOAT', \['batch', 'length', 64\]\), it must be"):
        check_graph(small[1], 65)


def test_an_operator_that_the_exporter_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"the ONNX exporter lacks the operator 'triton_llm_test.unknown'"):
        export_onnx(WithUnknown().eval(), tmp_path / "model.onnx", "folder")


def test_the_comparison_reads_random_and_real_batches_and_finds_a_drift(small: tuple[Small, Path]) -> None:
    module, path = small
    batches = batches_of(64, [list(range(30)), list(range(9)), [1]])
    assert set(batches) == {"random 1 x 1", "random 2 x 9", "random 3 x 33", "text 3 x 30"}
    report = compare(torch_runner(module), onnx_runner(path), batches, DRIFT["none"])
    assert report.passed
    assert max(batch.max_absolute for batch in report.batches) < 1e-4
    other = compare(torch_runner(Small().eval()), onnx_runner(path), batches, DRIFT["none"])
    assert not other.passed
    with pytest.raises(QualityLoss, match=r"artifact 'x': its logits drift from PyTorch fp32's: random|text") as found:
        hold_drift(other, "artifact 'x'", allow_loss=False)
    assert "the elemwise difference may be 0.002 absolute or 0.001 relative" in str(found.value)
    hold_drift(other, "artifact 'x'", allow_loss=True)


def test_a_report_reads_as_it_was_written(tmp_path: Path) -> None:
    report = DriftReport("a", "b", "1", DRIFT["int8"], (Drift("random 1 x 1", 0.1, 0.2, 0.01, 0.02, passed=True),))
    write_report(report, tmp_path)
    assert read_report(tmp_path) == report


def test_bounds_that_cannot_be_are_refused() -> None:
    with pytest.raises(SpecError, match="drift statistic 'best': it must be one of elemwise"):
        DriftBounds(statistic="best", absolute=1, relative=1)
    with pytest.raises(SpecError, match="drift absolute nan"):
        DriftBounds(absolute=float("nan"), relative=1)


def test_a_role_and_its_engine_belong_together() -> None:
    assert find_builder("auto", "scorer").engine == "onnx"
    assert find_builder("auto").engine == find_builder("auto", "text").engine == "openvino"
    with pytest.raises(SpecError, match="role 'scorer': the openvino engine is for role text; choose engine onnx"):
        check_spec(EngineSpec(model="m", role="scorer", engine="openvino"), find_builder("openvino"))
    with pytest.raises(SpecError, match="role 'text': the onnx engine is for role scorer"):
        check_spec(EngineSpec(model="m", role="text", engine="onnx", quant="none"), find_builder("onnx"))
    with pytest.raises(SpecError, match="quant 'int4': the onnx engine lacks it; it has none, fp16, int8"):
        check_spec(EngineSpec(model="m", engine="onnx", quant="int4"), find_builder("onnx"))


def test_a_drift_beyond_the_bounds_leaves_nothing(tiny: Path, tmp_path: Path) -> None:
    bounds = DriftBounds(statistic="max", absolute=0.0, relative=0.0)
    spec = EngineSpec(model=str(tiny), name="drifts", role="scorer", quant="int8", drift=bounds)
    with pytest.raises(QualityLoss, match=r"artifact 'drifts' \(int8\): its logits drift from PyTorch fp32's"):
        build(spec, tmp_path / "engines")
    assert not (tmp_path / "engines" / "drifts").exists()
