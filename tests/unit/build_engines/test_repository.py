from __future__ import annotations

import re
from pathlib import Path

import pytest

from build_engines.errors import SpecError, StorageError
from build_engines.repository import add_entry, list_entries, remove_entry, render_config
from python_llm.contract import DTYPES, GENERATOR
from python_llm.settings import ModelEntry, ServingConfig

ROOT = Path(__file__).parents[3]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return tmp_path / "model_repository"


def test_the_entry_is_two_data_files_and_the_folder_can_be_moved(tmp_path: Path, repository: Path) -> None:
    folder = add_entry("llama", tmp_path / "engines" / "llama", repository)
    assert folder == repository / "llama-generator"
    assert sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()) == [
        "1/model.json",
        "config.pbtxt",
    ]
    entry = ModelEntry.read(folder / "1" / "model.json")
    assert entry == ModelEntry(role="generator", artifact="../../../engines/llama")
    assert entry.artifact_path(folder / "1" / "model.json") == tmp_path / "engines" / "llama"
    assert [path.name for path in tmp_path.iterdir()] == ["model_repository"]


def test_an_artifact_elsewhere_is_named_in_full(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "llama"
    folder = add_entry("llama", elsewhere, tmp_path / "repository")
    assert ModelEntry.read(folder / "1" / "model.json").artifact == str(elsewhere)


def test_the_committed_entry_of_the_default_model_is_what_would_be_written(repository: Path, tmp_path: Path) -> None:
    made = add_entry("smollm2", tmp_path / "engines" / "smollm2", repository)
    golden = ROOT / "model_repository" / "smollm2-generator"
    for name in ("config.pbtxt", "1/model.json"):
        assert (made / name).read_bytes() == (golden / name).read_bytes(), (
            f"write it again: triton-llm repo add smollm2 ({name})"
        )


def test_every_tensor_of_the_contract_is_in_the_text() -> None:
    text = render_config("m-generator", GENERATOR)
    rows = re.findall(r'name: "(\w+)", data_type: (\w+), dims: \[ (-?\d+) \](, optional: true)?', text)
    expected = [(r.name, DTYPES[r.dtype], str(r.dims[0]), ", optional: true") for r in GENERATOR.inputs]
    expected += [(r.name, DTYPES[r.dtype], str(r.dims[0]), "") for r in GENERATOR.outputs]
    assert rows == expected


def test_writing_again_touches_nothing(tmp_path: Path, repository: Path) -> None:
    artifact = tmp_path / "engines" / "llama"
    folder = add_entry("llama", artifact, repository)
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    add_entry("llama", artifact, repository)
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before


def test_knobs_are_kept_unless_given_anew(tmp_path: Path, repository: Path) -> None:
    folder = add_entry("llama", tmp_path / "one", repository, ServingConfig(max_running=8))
    add_entry("llama", tmp_path / "two", repository)
    assert ModelEntry.read(folder / "1" / "model.json").serving.max_running == 8
    assert ModelEntry.read(folder / "1" / "model.json").artifact.endswith("two")
    add_entry("llama", tmp_path / "two", repository, ServingConfig())
    assert ModelEntry.read(folder / "1" / "model.json").serving == ServingConfig()


def test_list_and_remove(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "artifact.json").write_text("{}")
    add_entry("a", tmp_path / "a", repository)
    add_entry("b", tmp_path / "b", repository)
    (repository / "foreign").mkdir()
    assert [(e.model, e.role, e.present) for e in list_entries(repository)] == [
        ("a-generator", "generator", True),
        ("b-generator", "generator", False),
    ]
    remove_entry("a", repository)
    assert [e.model for e in list_entries(repository)] == ["b-generator"]
    assert (tmp_path / "a" / "artifact.json").is_file()
    with pytest.raises(StorageError, match=r"model 'a': no entry.*entries there: b"):
        remove_entry("a", repository)


def test_a_model_that_is_not_ours_is_left_alone(tmp_path: Path, repository: Path) -> None:
    (repository / "llama-generator" / "1").mkdir(parents=True)
    (repository / "llama-generator" / "1" / "model.py").write_text("")
    with pytest.raises(StorageError, match="no entry of ours"):
        add_entry("llama", tmp_path / "a", repository)
    with pytest.raises(StorageError, match="no entry of ours"):
        remove_entry("llama", repository)


def test_an_entry_that_cannot_be_read_is_named(tmp_path: Path, repository: Path) -> None:
    folder = add_entry("llama", tmp_path / "a", repository)
    (folder / "1" / "model.json").write_text('{"role": "generator", "artefact": "x"}')
    with pytest.raises(StorageError, match=r"artefact.*did you mean 'artifact'.*Remove"):
        add_entry("llama", tmp_path / "a", repository)


@pytest.mark.parametrize("name", ["../up", "a/b", ""])
def test_a_name_cannot_leave_the_repository(tmp_path: Path, repository: Path, name: str) -> None:
    with pytest.raises(SpecError, match="it must be letters"):
        add_entry(name, tmp_path / "a", repository)
    with pytest.raises(SpecError, match="it must be letters"):
        remove_entry(name, repository)
