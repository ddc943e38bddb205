from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from build_engines.build import BuildResult, build
from build_engines.spec import EngineSpec
from tests.unit.build_engines import copy_builder
from tiny_checkpoint import make_tiny_checkpoint


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRITON_LLM_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Hugging Face folder; read it, do not write it."""
    return make_tiny_checkpoint(tmp_path_factory.mktemp("tiny") / "checkpoint")


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint to break."""
    return Path(shutil.copytree(tiny, tmp_path / "checkpoint"))


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    return tmp_path / "engines"


@pytest.fixture
def copy_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The quick builder `copy`, found by its entry point as any other distribution's."""
    site = copy_builder.install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.fixture(scope="session")
def exported(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    """A real OpenVINO artifact of the tiny checkpoint, unquantised; random weights may miss the quality bounds."""
    spec = EngineSpec(model=str(tiny), name="tiny", quant="none", allow_quality_loss=True)
    return build(spec, tmp_path_factory.mktemp("engines"))
