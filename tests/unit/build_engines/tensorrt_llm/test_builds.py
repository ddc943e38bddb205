"""Both routes, whole: from a checkpoint to an artifact, with the library's used surface faked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from build_engines import artifact as artifact_module
from build_engines.build import build
from build_engines.builders import tensorrt_llm
from build_engines.builders._tensorrt_llm import container
from build_engines.errors import BuildFailure, CheckpointError, MissingRuntime, SpecError
from build_engines.spec import EngineSpec
from python_llm.artifact import Artifact, Manifest
from tests.unit.build_engines.tensorrt_llm.conftest import see
from tests.unit.build_engines.tensorrt_llm.library import install, write_commands, write_engine
from triton_llm.cli import main


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the container: the library's distributions are installed."""
    monkeypatch.setattr(container, "installed", lambda package: "1.2.1")
    monkeypatch.setattr(artifact_module, "version", lambda name: {"tensorrt": "10.14.1.48"}.get(name, "1.2.1"))


def _spec(folder: Path, **knobs: Any) -> EngineSpec:
    chosen = {"quant": "fp8", "max_seq_len": 2048, **knobs}
    return EngineSpec(model=str(folder), name="tiny", engine="tensorrt_llm", **chosen)


def _manifest(engines: Path) -> Manifest:
    return Artifact.open(engines / "tiny", verify=True).manifest


@pytest.mark.usefixtures("inside")
def test_the_llm_api_builds_every_rank(tiny: Path, engines: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    see(monkeypatch, 2)
    seen = install(monkeypatch)
    build(_spec(tiny, tp=2, kv_dtype="fp8", calib=str(text)), engines)
    manifest = _manifest(engines)
    assert (manifest.kind, manifest.tp, manifest.pp, manifest.world_size) == ("tensorrt_llm-engine", 2, 1, 2)
    assert {"rank0.engine", "rank1.engine", "config.json", "tokenizer.json"} <= set(manifest.files)
    assert "model.cache" not in manifest.files
    assert manifest.builder["tensorrt_llm"] == "1.2.1"
    assert manifest.builder["tensorrt"] == "10.14.1.48"
    assert manifest.builder["compute_capability"] == "9.0"
    assert manifest.quantisation == {"weights": "fp8", "format": "FP8", "kv_cache": "fp8"}
    assert manifest.limits.max_seq_len == 2048
    assert manifest.features["kv_reuse"]
    assert manifest.features["memory"]["kv_token"] > 0
    assert seen[0]["calib_config"].given["calib_dataset"].endswith("/calibration")
    assert seen[-1] == {"shutdown": True}
    assert "pretrained_config" in json.loads((engines / "tiny" / "config.json").read_text("utf-8"))


@pytest.mark.usefixtures("inside")
def test_one_gpu_builds_two_ranks_by_commands(
    tiny: Path, engines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    see(monkeypatch, 1)
    write_commands(tmp_path / "library", monkeypatch)
    build(_spec(tiny, tp=2, quant="int4_awq", group_size=32), engines)
    manifest = _manifest(engines)
    assert manifest.world_size == 2
    assert {"rank0.engine", "rank1.engine"} <= set(manifest.files)
    assert manifest.quantisation["group_size"] == 32


@pytest.mark.usefixtures("inside")
def test_a_command_that_fails_is_told_with_its_last_lines(
    tiny: Path, engines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    see(monkeypatch, 1)
    write_commands(tmp_path / "library", monkeypatch, fails=True)
    with pytest.raises(BuildFailure, match=r"trtllm-build .*ended with 1; its last lines:\nno kernel for this GPU"):
        build(_spec(tiny, tp=2), engines)
    assert [path.name for path in engines.iterdir()] == [".build-lock"]


@pytest.mark.usefixtures("inside")
def test_the_content_key_knows_the_knobs_and_the_calibration_text(
    tiny: Path, engines: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    see(monkeypatch, 2)
    install(monkeypatch)
    keys = set()
    for knobs in ({}, {"tp": 2}, {"kv_dtype": "fp8"}, {"calib": str(text)}, {"log_probs": "all"}):
        keys.add(build(_spec(tiny, force=True, **knobs), engines).manifest.content_key)
    text.write_text("Another text.", "utf-8")
    keys.add(build(_spec(tiny, force=True, calib=str(text)), engines).manifest.content_key)
    assert len(keys) == 6


@pytest.mark.usefixtures("inside")
def test_what_cannot_be_built_is_refused_before_the_library_is_touched(
    tiny: Path, engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingRuntime, match="zero GPUs are visible"):
        build(_spec(tiny), engines)
    see(monkeypatch, 8)
    with pytest.raises(SpecError, match="tp 3: it must divide the 4 heads"):
        build(_spec(tiny, tp=3), engines)


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("left", "part"),
    [
        ((1, 1), "built for tp 1, pp 1, world size 1; asked were tp 2"),
        ((2, 1), "rank1.engine missing"),
        ((2, 2), "rank2.engine of another build"),
    ],
)
def test_mixed_and_missing_ranks_are_found(
    left: tuple[int, int], part: str, tiny: Path, engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaves(target: object, folder: Path, output: Path, *rest: object) -> None:
        write_engine(output, *left)
        if left == (2, 1):
            (output / "rank1.engine").unlink()
        if left == (2, 2):
            config = json.loads((output / "config.json").read_text("utf-8"))
            config["pretrained_config"]["mapping"] = {"world_size": 2, "tp_size": 2, "pp_size": 1}
            (output / "config.json").write_text(json.dumps(config), "utf-8")

    see(monkeypatch, 2)
    monkeypatch.setattr(tensorrt_llm, "_build_by_api", leaves)
    with pytest.raises(BuildFailure, match=part):
        build(_spec(tiny, tp=2), engines)


def test_outside_the_container_the_error_says_how_to_get_in(
    tiny: Path, engines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["build", str(tiny), "--name", "tiny", "--engine", "tensorrt_llm", "--quant", "fp8", "--tp", "2"]
    assert main([*command, "--engines", str(engines)]) == 2
    error = capsys.readouterr().err
    for part in (
        "TensorRT-LLM is not installed here",
        "docker run --rm -it --gpus all",
        "nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3",
        f"-v {tiny}:{tiny}:ro",
        f"triton-llm build {tiny} --name tiny --engine tensorrt_llm --quant fp8 --tp 2",
        "--dry-run",
    ):
        assert part in error
    assert not engines.exists()


def test_another_version_is_named(tiny: Path, engines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "installed", lambda package: "1.3.0")
    with pytest.raises(MissingRuntime, match=r"TensorRT-LLM 1.3.0 is installed here; engines are built by 1.2.1"):
        build(_spec(tiny), engines)


def test_a_dry_run_runs_anywhere(tiny: Path, engines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["build", str(tiny), "--engine", "tensorrt_llm", "--dry-run", "--engines", str(engines)]
    assert main([*command, "--quant", "fp8", "--gpu", "H100", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["sound"], record["quant"]["quant_algo"]) == (True, "FP8")
    assert main([*command, "--quant", "fp8", "--gpu", "A100-80"]) == 2
    assert "[failed] format: fp8 needs compute capability 8.9" in capsys.readouterr().out
    assert not engines.exists()


@pytest.mark.parametrize("model", ["smollm2", "model.Q4_0.gguf"])
def test_a_gguf_is_refused(model: str, engines: Path) -> None:
    spec = EngineSpec(model=model, engine="tensorrt_llm", quant="fp8")
    with pytest.raises(CheckpointError, match="a GGUF; TensorRT-LLM quantises from the original weights"):
        build(spec, engines)


def test_a_cpu_engine_has_no_ranks(tiny: Path, engines: Path) -> None:
    with pytest.raises(SpecError, match=r"tp '2': the openvino engine .*choose engine tensorrt_llm"):
        build(EngineSpec(model=str(tiny), engine="openvino", tp=2), engines)
