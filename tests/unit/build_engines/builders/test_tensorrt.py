"""TensorRT plans without a GPU: the profile, the folded graph, what the dry run and the refusals say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from build_engines.builders import find_builder
from build_engines.builders._onnx.compare import batches_of, compare, onnx_runner
from build_engines.builders._onnx.export import export_onnx
from build_engines.builders._tensorrt.shapes import shapes_of
from build_engines.builders._tensorrt.simplify import simplify
from build_engines.drift import DRIFT
from build_engines.errors import MissingRuntime, SpecError
from build_engines.spec import EngineSpec
from triton_llm.cli import main


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(
        json.dumps({"model_type": "llama", "vocab_size": 64, "max_position_embeddings": 4096}), "utf-8"
    )
    return tmp_path / "model"


def spec(model: Path | str = "m", **knobs: Any) -> EngineSpec:
    return EngineSpec(model=str(model), engine="tensorrt", **{"quant": "fp16", **knobs})


def test_the_profile_comes_from_the_limits_and_holds_for_both_inputs() -> None:
    shapes = shapes_of(spec(max_batch_size=8, max_seq_len=512), context=4096)
    assert (shapes.least, shapes.usual, shapes.largest) == ((1, 1), (2, 128), (8, 512))
    profile = shapes.profile()
    for name in ("input_ids", "attention_mask"):
        assert (profile[name].min, profile[name].opt, profile[name].max) == (shapes.least, shapes.usual, shapes.largest)
    assert shapes.limits().max_seq_len == 512
    assert shapes_of(spec(), context=1024).largest == (16, 1024)


@pytest.mark.parametrize(
    ("knobs", "part"),
    [
        ({"max_seq_len": 5000}, "max_seq_len 5000: the model's context is 4096"),
        ({"max_num_tokens": 64}, "max_num_tokens 64: a plan is built for rows"),
        ({"max_seq_len": 64, "max_input_len": 32}, "max_input_len 32: a scorer's text is its whole sequence"),
    ],
)
def test_limits_that_cannot_be_are_refused(knobs: dict[str, Any], part: str) -> None:
    with pytest.raises(SpecError, match=part):
        shapes_of(spec(**knobs), context=4096)


class Small(torch.nn.Module):
    """With a part that does not depend on the input, as rotary tables are, and one that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(64, 16)
        self.last = torch.nn.Linear(16, 64)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        constant = torch.cos(torch.arange(16) / 3.0) * torch.sin(torch.arange(16) / 5.0)
        logits: torch.Tensor = self.last(self.table(input_ids) * constant * attention_mask[..., None])
        return logits


def test_folding_and_sanitising_leave_a_smaller_graph_with_the_same_logits(tmp_path: Path) -> None:
    export_onnx(Small().eval(), tmp_path / "model.onnx", "small")
    before, after = simplify(tmp_path / "model.onnx", tmp_path / "ready.onnx")
    assert after <= before
    batches = batches_of(64, [list(range(20)), [3, 4]])
    report = compare(onnx_runner(tmp_path / "model.onnx"), onnx_runner(tmp_path / "ready.onnx"), batches, DRIFT["none"])
    assert report.passed
    assert max(batch.max_absolute for batch in report.batches) < 1e-5
    assert {name: feed["input_ids"].shape for name, feed in batches.items()}["text 2 x 20"] == (2, 20)
    assert all(np.isin(feed["attention_mask"], (0, 1)).all() for feed in batches.values())


def test_a_dry_run_says_the_whole_plan_anywhere(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["build", str(config), "--name", "s", "--role", "scorer", "--engine", "tensorrt", "--quant", "fp8"]
    assert main([*command, "--gpu", "H100", "--max-batch-size", "8", "--dry-run", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["kind"] == "tensorrt-plan"
    assert record["profile"] == {"least": [1, 1], "usual": [2, 512], "largest": [8, 2048]}
    assert [check["state"] for check in record["checks"]] == ["ok", "ok"]
    assert "--gpus all" in record["enter"]
    assert main([*command, "--gpu", "A100", "--dry-run"]) == 2
    assert "[failed] format: fp8 needs compute capability 8.9" in capsys.readouterr().out


def test_where_tensorrt_is_not_the_command_that_goes_where_it_is_is_said() -> None:
    with pytest.raises(MissingRuntime, match=r"TensorRT is not installed here.*\n.*docker run .* build m "):
        find_builder("tensorrt").require(spec())  # type: ignore[attr-defined]
    with pytest.raises(SpecError, match="tp '2': the tensorrt engine has no such knob"):
        find_builder("tensorrt").require(spec(tp=2))  # type: ignore[attr-defined]
