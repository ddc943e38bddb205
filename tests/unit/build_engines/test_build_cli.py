from __future__ import annotations

import json
from pathlib import Path

import pytest

from build_engines import quality
from build_engines.build import BuildResult
from build_engines.quality_bounds import Quality
from triton_llm.cli import main


@pytest.fixture
def command(tiny: Path, copy_engine: Path, engines: Path) -> list[str]:
    return ["build", str(tiny), "--name", "tiny", "--engine", "copy", "--quant", "none", "--engines", str(engines)]


def test_the_last_line_names_artifact_size_and_next_command(
    command: list[str], engines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 0
    out, err = capsys.readouterr()
    for part in (f"built {engines / 'tiny'}", "MB", "of the source's", "next: triton-llm repo add tiny"):
        assert part in out
    assert "import ..." in err
    assert main(command) == 0
    assert "unchanged" in capsys.readouterr().out


def test_json_is_one_object(command: list[str], engines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["artifact"], record["reused"], record["kind"]) == (str(engines / "tiny"), False, "copy")
    assert record["size"] > record["source_size"] > 0
    assert record["model"]["end_token_ids"] == [2, 0]


def test_a_dry_run_does_nothing(command: list[str], engines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--dry-run"]) == 0
    assert f"would build {engines / 'tiny'}" in capsys.readouterr().out
    assert main([*command, "--dry-run", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["action"] == "build"
    assert set(record["estimate"]) == {"seconds", "disk", "memory"}
    assert not engines.exists()


def test_a_loss_is_refused_said_and_accepted(
    command: list[str], engines: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = Quality(tokens=10, agreement=0.5, kl=0.001, perplexity=10.0, source_perplexity=10.0)
    monkeypatch.setattr(quality, "measure", lambda *given, **knobs: lossy)
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "top-1 agreement 0.5, at least 0.97; its weights are not quantised" in said
    assert all(part in said for part in ("kv_cache_precision 'u8'", "--allow-quality-loss"))
    assert "quant (" not in said
    assert main([*command, "--allow-quality-loss"]) == 0
    assert "perplexity x1.000 (accepted: top-1 agreement 0.5, at least 0.97)" in capsys.readouterr().out
    assert main([*command, "--no-quality-check", "--force"]) == 0
    assert "agreement" not in capsys.readouterr().out


def test_verify_finds_an_edited_byte(command: list[str], engines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    file = engines / "tiny" / "engine.bin"
    file.write_bytes(file.read_bytes()[:-1] + b"\x00")
    assert main([*command, "--verify"]) == 2
    assert "'engine.bin' does not have the sha256 of the manifest" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nowhere/at/all"], "no such folder"),
        (["smollm2", "--quant", "int2"], "quant 'int2'"),
        (["smollm2", "--engine", "caffe"], "engine 'caffe'"),
        (["smollm2", "--offline"], "offline mode is on"),
        (["smollm2", "--name", "a/b"], "name 'a/b'"),
    ],
)
def test_the_callers_mistake_is_exit_code_2(
    arguments: list[str], part: str, engines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", *arguments, "--engines", str(engines)]) == 2
    out, err = capsys.readouterr()
    assert part in err
    assert out == ""
    assert not engines.exists()


def test_repo_adds_lists_and_removes(exported: BuildResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--repository", str(tmp_path / "repository")]
    add = ["repo", "add", "tiny", "--artifact", str(exported.path), *where]
    assert main([*add, "--set", "max_running=4", "--set", "kv_cache_precision=f32"]) == 0
    assert "next: triton-llm serve" in capsys.readouterr().out
    entry = json.loads((tmp_path / "repository" / "tiny-generator" / "1" / "model.json").read_text())
    assert entry["serving"] == {"max_running": 4, "kv_cache_precision": "f32"}
    assert main(["repo", "list", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "tiny"
    assert main(["repo", "remove", "tiny", *where]) == 0
    capsys.readouterr()
    assert main(["repo", "list", *where]) == 0
    assert "no entries" in capsys.readouterr().out


def test_knobs_are_added_to_those_of_the_entry(
    exported: BuildResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add = ["repo", "add", "tiny", "--artifact", str(exported.path), "--repository", str(tmp_path / "r")]

    def knobs(*pairs: str) -> object:
        assert main([*add, *(part for pair in pairs for part in ("--set", pair)), "--json"]) == 0
        said = json.loads(capsys.readouterr().out)["serving"]
        assert json.loads((tmp_path / "r" / "tiny-generator" / "1" / "model.json").read_text())["serving"] == said
        return said

    assert knobs("speculation=prompt_lookup") == {"speculation": "prompt_lookup"}
    assert knobs("max_running=8") == {"speculation": "prompt_lookup", "max_running": 8}
    assert knobs("max_running=9", "prefix_cache=false") == {
        "speculation": "prompt_lookup",
        "max_running": 9,
        "prefix_cache": False,
    }
    assert knobs("speculation=") == {"max_running": 9, "prefix_cache": False}
    assert main(add) == 0
    assert "knobs: max_running=9, prefix_cache=false; next" in capsys.readouterr().out
    assert knobs("max_running=64", "prefix_cache=", 'engine_options={"a": 1}') == {"engine_options": {"a": 1}}
    assert knobs("engine_options=") == {}
    assert main(add) == 0
    assert "all knobs at their defaults; next" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--set", "max_runing="], "did you mean 'max_running'"),
        (["--set", "max_runing=4"], "did you mean 'max_running'"),
        (["--set", "max_running"], "KNOB=VALUE"),
        (["--set", "=4"], "--set '=4': it must be KNOB=VALUE"),
        (["--admin-key-file", "admin.key"], "--admin-key-file 'admin.key': it goes with --url"),
        (["--artifact", "nowhere"], "no such folder"),
    ],
)
def test_a_mistake_in_repo_add(
    arguments: list[str], part: str, exported: BuildResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["repo", "add", "tiny", "--artifact", str(exported.path), "--repository", str(tmp_path / "r")]
    assert main([*command, *arguments]) == 2
    assert part in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_name_that_is_a_path_is_refused_before_its_artifact(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repo", "add", "a/b"]) == 2
    assert "name 'a/b': it must be letters" in capsys.readouterr().err


def test_a_repository_that_is_not_there_or_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repo", "list", "--repository", str(tmp_path / "none")]) == 0
    assert "which does not exist; add one with" in capsys.readouterr().out
    (tmp_path / "file").write_text("")
    assert main(["repo", "list", "--repository", str(tmp_path / "file")]) == 2
    assert f"repository '{tmp_path / 'file'}': a file; a model repository is a folder" in capsys.readouterr().err
