from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from build_engines.build import build, make_plan
from build_engines.checkpoint import locate
from build_engines.errors import MemoryShortage, StorageError
from build_engines.estimate import Machine, estimate_of
from build_engines.parameters import count_parameters
from build_engines.progress import Lines, Silent
from build_engines.spec import EngineSpec
from tests.unit.build_engines.tiny_gguf import write_gguf

ROOMY = Machine(disk=1 << 40, memory=1 << 40)


def _spec(model: Path, **knobs: Any) -> EngineSpec:
    return EngineSpec(**{"model": str(model), "name": "model", "engine": "copy", "quant": "none", **knobs})


def test_parameters_are_counted_from_the_headers(tiny: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    with safe_open(str(tiny / "model.safetensors"), "np") as weights:
        expected = sum(weights.get_tensor(name).size for name in weights.keys())  # noqa: SIM118
    folder = count_parameters(locate(_spec(tiny), Silent()))
    assert folder.count == expected
    assert 4 * expected < folder.bytes < 4 * expected + 4096  # fp32, and the header
    file = write_gguf(tiny, tmp_path / "tiny.gguf")
    assert count_parameters(locate(_spec(file), Silent())).count == expected


def test_more_work_takes_more(tiny: Path, tmp_path: Path) -> None:
    def of(model: Path, **knobs: Any) -> tuple[float, int, int]:
        estimate = estimate_of(_spec(model, **knobs), locate(_spec(model), Silent()))
        return estimate.seconds, estimate.disk, estimate.memory

    plain = of(tiny, check_quality=False)
    checked = of(tiny)
    imported = of(write_gguf(tiny, tmp_path / "tiny.gguf"), check_quality=False)
    assert checked[0] > plain[0]
    assert checked[2] > plain[2]
    assert imported[0] > plain[0]
    assert imported[1] > plain[1]
    assert of(tiny, quant="int4")[1] < of(tiny, quant="int8")[1] < of(tiny, quant="none")[1]


@pytest.mark.parametrize(
    ("machine", "error", "parts"),
    [
        (
            Machine(disk=1 << 20, memory=1 << 40),
            StorageError,
            ["engines'", "0.0 GB free", "needs about 0.1 GB", "free"],
        ),
        (
            Machine(disk=1 << 40, memory=300 << 20),
            MemoryShortage,
            ["0.3 GB of memory", "about 1.1 GB", "larger machine"],
        ),
    ],
)
def test_a_build_for_which_there_is_no_room_is_refused(
    machine: Machine, error: type[Exception], parts: list[str], tiny: Path, copy_engine: Path, engines: Path
) -> None:
    with pytest.raises(error) as caught:
        build(_spec(tiny), engines, machine=machine)
    assert all(part in str(caught.value) for part in parts)
    assert not engines.exists()
    assert build(_spec(tiny), engines, machine=ROOMY).reused is False
    assert build(_spec(tiny), engines, machine=machine).reused  # what is finished needs no room


def test_the_estimate_is_said_before_the_work(
    tiny: Path, copy_engine: Path, engines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    build(_spec(tiny), engines, Lines(sys.stdout), machine=ROOMY)
    lines = capsys.readouterr().out.splitlines()
    said = next(index for index, line in enumerate(lines) if "GB of memory" in line and "GB of disk" in line)
    assert said < lines.index("import ...")
    assert lines[said].startswith(f"build {engines / 'model'}: about ")


def test_room_is_found_where_the_folder_will_be(tmp_path: Path) -> None:
    here = Machine.here(tmp_path / "not" / "yet")
    assert here.disk > 0
    assert here.memory > 1 << 20


def test_a_plan_has_the_estimate(tiny: Path, copy_engine: Path, engines: Path) -> None:
    assert make_plan(_spec(tiny), engines).estimate.disk > tiny.joinpath("model.safetensors").stat().st_size
