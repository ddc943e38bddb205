from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from build_engines import hub
from build_engines.wheel import SMOLLM2
from echo_artifact import make_echo_artifact
from python_llm.artifact import Artifact
from tests.unit.build_engines.plan.models import CONFIGS
from triton_llm.cli import main

MODEL = str(CONFIGS / "llama-3.1-8b")
GPT3 = ["--layers", "96", "--hidden", "12288", "--heads", "96", "--vocab", "50257", "--plain-mlp", "--tied"]


def test_the_table_says_it_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", MODEL, "--gpu", "H100", "--count", "2", "--quant", "fp8", "--price", "3"]) == 0
    out = capsys.readouterr().out
    for part in (
        "8,030,261,248 parameters",
        "datasheet",
        "tokens/s, bound by",
        "$",
        "formats of H100",
        "mind:",
        "roofline",
    ):
        assert part in out


@pytest.mark.parametrize("model", [MODEL, f"{MODEL}/config.json"])
def test_json_is_one_object(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", model, "--quant", "int4", "--json", "--price", "2"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["model"]["parameters"] == 8_030_261_248
    assert record["wish"]["quant"] == "int4_awq"
    first = record["choices"][0]
    assert first["fits"]
    assert first["memory"]["kv_block"] == 32 * first["memory"]["kv_token"]
    assert record["ceilings"]["dollars_per_million_output_tokens"] > 0


def test_the_default_model_is_planned_once_it_is_built(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["plan", "smollm2", "--json"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert all(part in said for part in ("triton-llm build smollm2", "folder", "config.json", "--layers"))
    made = make_echo_artifact(tmp_path / "engines" / "smollm2", tiny)
    assert main(command) == 2  # another model of that name
    shutil.copy(tiny / "config.json", made)
    manifest = Artifact.open(made).manifest
    own = replace(manifest, source=replace(manifest.source, id=SMOLLM2.id))
    (made / "artifact.json").write_text(own.to_json())
    capsys.readouterr()
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["model"]["parameters"] > 0
    monkeypatch.chdir("/")
    assert main([*command, "--engines", str(made.parent)]) == 0


def test_numbers_and_gpu_are_both_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gpu", "nonsense", "--layers", "3"]) == 2
    said = capsys.readouterr().err
    assert "--hidden, --heads, --vocab missing. gpu 'nonsense': no figures" in said
    assert main(["plan", *GPT3, "--gpu", "nonsense"]) == 2
    assert "error: gpu 'nonsense'" in capsys.readouterr().err


def test_numbers_instead_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *GPT3, "--gpu", "A100-40", "--count", "8", "--length", "2048"]) == 2
    assert "PROBLEM: no legal choice of 8 x A100-40" in capsys.readouterr().out


def test_the_picture_is_an_svg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", MODEL, "--svg", str(tmp_path / "memory.svg")]) == 0
    texts = "".join(ET.parse(tmp_path / "memory.svg").getroot().itertext())
    assert all(part in texts for part in ("weights: 16.06 GB", "KV cache:", "80 GB of GPU"))


def test_a_hub_id_fetches_no_weights(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[object] = []

    def fetch(model: str, revision: str, *, offline: bool, patterns: tuple[str, ...]) -> Path:
        asked.extend((model, revision, *patterns))
        return CONFIGS / "qwen2.5-7b"

    monkeypatch.setattr(hub, "fetch", fetch)
    assert main(["plan", "owner/model", "--revision", "main"]) == 0
    assert "7,615,616,512" in capsys.readouterr().out
    assert asked[:2] == ["owner/model", "main"]
    assert not any("safetensors" in str(each) for each in asked)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "nothing to plan"),
        ([MODEL, "--layers", "3"], "not both"),
        (["no such folder"], "no such folder or file"),
        ([MODEL, "--gpu", "H1000"], "did you mean"),
        ([MODEL, "--gpu", "H100", "--cpu", "EPYC-9654"], "a GPU or a CPU"),
        ([MODEL, "--cpu", "EPYC-9654", "--count", "2"], "one machine"),
        ([MODEL, "--count", "0"], "count 0"),
    ],
)
def test_a_mistake_is_exit_code_2(arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *arguments]) == 2
    assert part in capsys.readouterr().err
