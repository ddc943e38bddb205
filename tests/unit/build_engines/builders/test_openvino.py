from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

from build_engines.build import BuildResult, build
from build_engines.builders.openvino import BUILDER, choose_group_size
from build_engines.errors import BuildFailure, CheckpointError, SpecError
from build_engines.spec import EngineSpec
from python_llm.artifact import Artifact


def test_the_artifact_opens_and_fits_this_runtime(exported: BuildResult, tiny: Path) -> None:
    artifact = Artifact.open(exported.path)
    artifact.check_runtime()
    assert artifact.kind == "openvino-ir"
    assert set(artifact.manifest.files) == {
        "openvino_model.xml",
        "openvino_model.bin",
        *(file.name for file in tiny.iterdir() if file.suffix == ".json"),
    }
    assert artifact.manifest.quantisation == {"weights": "none", "format": "f32"}


def test_tokenizer_and_configuration_are_the_checkpoints_own(exported: BuildResult, tiny: Path) -> None:
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (exported.path / name).read_bytes() == (tiny / name).read_bytes()


def test_the_ir_decides_nothing_about_the_kv_cache(exported: BuildResult) -> None:
    model = openvino.Core().read_model(exported.path / "openvino_model.xml")
    assert not model.has_rt_info(["runtime_options", "KV_CACHE_PRECISION"])


def test_unquantised_logits_are_those_of_transformers(exported: BuildResult, tiny: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    ids = np.arange(3, 43, dtype=np.int64)[None]
    reference = AutoModelForCausalLM.from_pretrained(tiny)(torch.from_numpy(ids)).logits.detach().numpy()
    exact = {"KV_CACHE_PRECISION": "f32", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(exported.path / "openvino_model.xml", "CPU", exact)
    inputs = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "position_ids": np.arange(ids.shape[1], dtype=np.int64)[None],
        "beam_idx": np.zeros(1, np.int32),
    }
    logits = compiled(inputs)["logits"]
    assert np.abs(logits - reference).max() <= 1e-3 * np.abs(reference).max()


@pytest.mark.parametrize(
    ("quant", "record"),
    [
        ("int8", {"weights": "int8", "format": "int8_asym"}),
        (
            "int4",
            {
                "weights": "int4",
                "format": "int4_asym",
                "group_size": 64,
                "int4_ratio": 1.0,
                "int4_rest": "int8",
                "int4_share": 0.5294,
            },
        ),
    ],
)
def test_quantised_weights_are_smaller_and_say_how(
    tiny: Path, engines: Path, exported: BuildResult, quant: str, record: dict[str, Any]
) -> None:
    result = build(EngineSpec(model=str(tiny), name="tiny", quant=quant, allow_quality_loss=True), engines)
    assert result.manifest.quantisation == record
    sizes = [path / "openvino_model.bin" for path in (result.path, exported.path)]
    assert sizes[0].stat().st_size < 0.5 * sizes[1].stat().st_size


@pytest.mark.parametrize(
    ("sizes", "wanted", "chosen"),
    [({512, 1024}, 0, 128), ({576, 1536}, 0, 64), ({64, 96}, 0, 32), ({576}, 32, 32), ({48}, 0, 16)],
)
def test_the_largest_group_that_divides(sizes: set[int], wanted: int, chosen: int) -> None:
    assert choose_group_size(sizes, wanted, "m") == chosen


@pytest.mark.parametrize(
    ("sizes", "wanted", "parts"),
    [
        ({576, 1536}, 128, ["group_size 128", "'m'", "576", "another group size"]),
        ({100}, 0, ["group_size 128, 64, 32, 16", "100", "choose quant int8"]),
    ],
)
def test_a_group_that_cannot_divide_is_refused(sizes: set[int], wanted: int, parts: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        choose_group_size(sizes, wanted, "m")
    assert all(part in str(caught.value) for part in parts)


def test_an_architecture_that_cannot_be_exported_is_refused_before_the_work(folder: Path, engines: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))
    with pytest.raises(CheckpointError) as caught:
        build(EngineSpec(model=str(folder), name="x"), engines)
    assert all(part in str(caught.value) for part in (str(folder), "architecture 'bert'", "OpenVINO", "llama"))
    assert not [path for path in engines.iterdir() if path.is_dir()]


def test_an_ir_that_does_not_run_is_our_failure(tmp_path: Path) -> None:
    (tmp_path / "openvino_model.xml").write_text("<net/>")
    with pytest.raises(BuildFailure, match="its paged form does not run") as caught:
        BUILDER.verify(tmp_path, 512)
    assert caught.value.exit_code == 1


def test_an_ir_of_another_vocabulary_is_our_failure(exported: BuildResult) -> None:
    with pytest.raises(BuildFailure, match="512 logits, the checkpoint's vocabulary is 511"):
        BUILDER.verify(exported.path, 511)
