"""The checkpoint route: folders that ModelOpt quantised are taken as they are, and must be what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from build_engines.build import build
from build_engines.errors import CheckpointError, SpecError
from build_engines.spec import EngineSpec
from python_llm.artifact import Artifact
from triton_llm.cli import main


@pytest.fixture
def quantised(folder: Path) -> Path:
    return quantise(folder)


def quantise(folder: Path, algo: str = "FP8", *, really: bool = True, scales: bool = True) -> Path:
    """As ModelOpt exports it: the matrices in FP8 with a scale each, the rest as it was."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    for name, tensor in list(tensors.items()) if really else []:
        if "proj" in name:
            tensors[name] = tensor.to(torch.float8_e4m3fn)
            if scales:
                tensors[name.replace(".weight", ".weight_scale")] = torch.ones(())
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    says = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": algo, "kv_cache_quant_algo": "FP8"}}
    (folder / "hf_quant_config.json").write_text(json.dumps(says), "utf-8")
    return folder


def _spec(folder: Path, **knobs: Any) -> EngineSpec:
    return EngineSpec(model=str(folder), name="tiny", engine="tensorrt_llm", **knobs)


def test_a_quantised_folder_is_imported_without_building(quantised: Path, engines: Path) -> None:
    build(_spec(quantised, tp=2), engines)
    opened = Artifact.open(engines / "tiny", verify=True)
    manifest = opened.manifest
    assert (manifest.kind, manifest.tp, manifest.world_size) == ("tensorrt_llm-checkpoint", 2, 2)
    assert manifest.quantisation == {"weights": "fp8", "format": "FP8", "kv_cache": "fp8"}
    assert {"hf_quant_config.json", "model.safetensors", "config.json", "tokenizer.json"} <= set(manifest.files)
    opened.check_runtime()  # any version may serve it


def test_a_dry_run_says_that_nothing_is_built(
    quantised: Path, engines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["build", str(quantised), "--engine", "tensorrt_llm", "--engines", str(engines), "--dry-run"]
    assert main(command) == 0
    assert "(tensorrt_llm-checkpoint)" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quantisation"]["format"] == "FP8"
    assert not engines.exists()


def test_a_plain_folder_may_be_served_as_a_checkpoint(tiny: Path, engines: Path) -> None:
    build(_spec(tiny, form="checkpoint", quant="none"), engines)
    manifest = Artifact.open(engines / "tiny").manifest
    assert (manifest.kind, manifest.quantisation["weights"]) == ("tensorrt_llm-checkpoint", "none")


def test_an_unquantised_checkpoint_called_quantised(folder: Path, engines: Path) -> None:
    with pytest.raises(CheckpointError, match=r"quant 'fp8', and it has no hf_quant_config.json; it is not quantised"):
        build(_spec(folder, form="checkpoint", quant="fp8"), engines)
    quantise(folder, really=False)
    with pytest.raises(CheckpointError, match=r"says FP8 and no tensor is \(F32\); it is not quantised"):
        build(_spec(folder), engines)
    assert not Path(engines / "tiny").exists()


def test_weights_without_scales(folder: Path, engines: Path) -> None:
    with pytest.raises(CheckpointError, match="FP8 weights without a weight_scale"):
        build(_spec(quantise(folder, scales=False)), engines)


def test_a_quantisation_nobody_knows(folder: Path, engines: Path) -> None:
    with pytest.raises(CheckpointError, match="names quant_algo 'W2A2'; known are FP8"):
        build(_spec(quantise(folder, "W2A2")), engines)


def test_more_stages_than_layers(quantised: Path, engines: Path) -> None:
    with pytest.raises(SpecError, match="pp 3: the model has fewer layers"):
        build(_spec(quantised, pp=3), engines)


def test_another_engine_still_refuses_it(quantised: Path, engines: Path) -> None:
    with pytest.raises(CheckpointError, match="already quantised"):
        build(EngineSpec(model=str(quantised), engine="openvino"), engines)
