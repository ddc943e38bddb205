"""Steps 4 and 5: engines of each format and route against their dry runs, and calibration without a network."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from build_engines.builders.tensorrt_llm import BUILDER
from build_engines.plan.formats import FORMATS, missing_on
from python_llm.artifact import Artifact, Manifest
from python_llm.gpus import Gpu
from tests.gpu.conftest import LIMITS, Build, build_by_cli, spec_of

_PLAN_BYTES = 128_000_000  # of a rank's file: what TensorRT keeps beside the weights, an assumption
_TEXT = "The ferry left the small harbour at six in the morning, and the gulls followed it out to sea. "


def check_files(manifest: Manifest, engines: Path, **knobs: Any) -> None:
    """Each rank's file is what the dry run said, within a tenth; the differences are printed."""
    said = BUILDER.dry_run(spec_of(manifest.name, **knobs), engines).to_record()
    planned = {name: size for name, size in said["files"].items() if name.endswith(".engine")}
    assert planned.keys() == {name for name in manifest.files if name.endswith(".engine")}
    for name, size in planned.items():
        found = manifest.files[name].size
        print(f"{manifest.name} {name}: planned {size / 1e6:.0f} MB, built {found / 1e6:.0f} MB")
        assert abs(found - size) <= 0.1 * size + _PLAN_BYTES


@pytest.mark.parametrize("quant", FORMATS)
def test_step_4_an_engine_of_each_format(quant: str, built: Build, engines: Path, gpus: tuple[Gpu, ...]) -> None:
    if why := missing_on(FORMATS[quant], gpus[0].version):
        pytest.skip(why)
    manifest = Artifact.open(built("plain" if quant == "none" else quant, quant=quant), verify=True).manifest
    check_files(manifest, engines, quant=quant)
    assert asdict(manifest.limits) == LIMITS
    assert manifest.builder["compute_capability"] == gpus[0].capability
    assert manifest.quantisation["format"] == (FORMATS[quant].algo or "none")


def test_step_4_two_ranks_by_the_llm_api(built: Build, engines: Path, gpus: tuple[Gpu, ...]) -> None:
    if len(gpus) < 2:
        pytest.skip(f"{len(gpus)} GPU is visible, two are needed")
    manifest = Artifact.open(built("pair", tp=2), verify=True).manifest
    assert manifest.world_size == 2
    check_files(manifest, engines, tp=2)


def test_step_4_two_ranks_on_one_gpu_by_commands(engines: Path) -> None:
    path = build_by_cli(engines, spec_of("pair-commands", tp=2), CUDA_VISIBLE_DEVICES="0")
    manifest = Artifact.open(path, verify=True).manifest
    assert {"rank0.engine", "rank1.engine"} <= manifest.files.keys()


def test_step_5_calibration_without_a_network(
    engines: Path, tmp_path: Path, plain: Path, gpus: tuple[Gpu, ...]
) -> None:
    """``plain`` was built: the checkpoint is in the hub's cache."""
    if why := missing_on(FORMATS["fp8"], gpus[0].version):
        pytest.skip(why)
    text = tmp_path / "text.txt"
    text.write_text(_TEXT * 400, "utf-8")
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    path = build_by_cli(engines, spec_of("calibrated", quant="fp8", calib=str(text)), **offline)
    manifest = Artifact.open(path, verify=True).manifest
    assert manifest.quantisation["format"] == "FP8"
