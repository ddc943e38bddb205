"""The checklist of the first run on hardware is what `make test-gpu` executes, and it says why it does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from build_engines.builders._tensorrt_llm.container import api
from fake_gpus import install_gpus
from tests.gpu import conftest

ROOT = Path(__file__).parents[2]


def test_every_step_of_the_page_has_its_test() -> None:
    _, _, checklist = (ROOT / "docs/tensorrt_llm.md").read_text("utf-8").partition("## The first run on hardware")
    steps = {int(number) for number in re.findall(r"^(\d+)\. ", checklist, re.MULTILINE)}
    assert steps == set(range(1, 11))
    ring = "".join(file.read_text("utf-8") for file in (ROOT / "tests/gpu").glob("test_*.py"))
    assert {int(number) for number in re.findall(r"^def test_step_(\d+)_", ring, re.MULTILINE)} == steps
    assert len(re.findall(r"^def test_", ring, re.MULTILINE)) == len(re.findall(r"^def test_step_", ring, re.MULTILINE))


def test_without_a_gpu_or_the_library_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = api()["container"]["image"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"no GPU is visible (nvidia-smi is not on PATH): run `make test-gpu` in {image}" in conftest.why_not()
    monkeypatch.setenv("PATH", str(install_gpus(tmp_path / "bin", 1)))
    monkeypatch.setattr(conftest, "installed", lambda package: "")
    assert conftest.why_not().startswith("TensorRT-LLM 1.2.1 is not installed")
    monkeypatch.setattr(conftest, "installed", lambda package: "1.2.1")
    assert not conftest.why_not()
