from __future__ import annotations

from pathlib import Path

import pytest

from fake_gpus import GIB, install_gpus
from python_llm.gpus import visible_gpus


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(install_gpus(tmp_path / "bin", 2, capability="8.9", free=3 * GIB)), prepend=":")


@pytest.mark.usefixtures("two")
def test_gpus_are_what_the_driver_says() -> None:
    found = visible_gpus()
    assert [(gpu.name, gpu.version, gpu.free) for gpu in found] == [("NVIDIA H100", (8, 9), 3 * GIB)] * 2


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("chosen", "count"), [("0", 1), ("1,0", 2), ("0,5", 1), ("", 0), ("-1", 0), ("GPU-3f1c,GPU-77a0", 2)]
)
def test_what_is_hidden_is_not_counted(chosen: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert len(visible_gpus()) == count


@pytest.mark.parametrize(
    "script", ["echo 'NVIDIA-SMI has failed'; exit 9", "echo 'NVIDIA GB10, 12.1, [N/A], [N/A]'", "exit 0"]
)
def test_a_driver_that_does_not_answer_is_no_gpu(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert visible_gpus() == ()


def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert visible_gpus() == ()
