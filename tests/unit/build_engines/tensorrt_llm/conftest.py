from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from build_engines.builders import tensorrt_llm
from build_engines.builders._tensorrt_llm import container
from build_engines.builders._tensorrt_llm.target import Target, resolve
from build_engines.spec import EngineSpec
from python_llm.gpus import Gpu
from tests.unit.build_engines.plan.models import config_of

H100 = Gpu("NVIDIA H100 80GB HBM3", "9.0", 81559 << 20, 80000 << 20)


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine as most are: no GPU, no library."""
    see(monkeypatch, 0)
    monkeypatch.setattr(container, "installed", lambda package: "")


def see(monkeypatch: pytest.MonkeyPatch, count: int, gpu: Gpu = H100) -> None:
    monkeypatch.setattr(tensorrt_llm, "visible_gpus", lambda: (gpu,) * count)


@pytest.fixture
def target() -> Callable[..., Target]:
    def make(fixture: str = "llama-3.1-8b", visible: int = 0, **knobs: Any) -> Target:
        knobs = {"quant": "fp8", "gpu": "" if visible else "H100", **knobs}
        spec = EngineSpec(model=fixture, engine="tensorrt_llm", **knobs)
        return resolve(spec, config_of(fixture), (H100,) * visible)

    return make


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "calibration.txt"
    file.write_text("Some pages of what the model will be asked. " * 200, "utf-8")
    return file
