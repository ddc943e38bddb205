from __future__ import annotations

import re
from pathlib import Path

import pytest

from bare_artifact import make_bare_artifact
from build_engines import repository as entries
from build_engines.errors import SpecError, StorageError
from build_engines.model_config import ROLES_OF_A_MODEL, render_role
from build_engines.repository import list_entries, remove_entry
from python_llm.contract import DTYPES, ROLES
from python_llm.settings import ModelEntry, Role, ServingConfig

ROOT = Path(__file__).parents[3]


MODELS = ("smollm2-tokenizer", "smollm2-generator", "smollm2-detokenizer", "smollm2-unary", "smollm2")


def add_entry(name: str, artifact: Path, repository: Path, serving: ServingConfig | None = None) -> Path:
    """Write the entries; return the generator's folder."""
    return entries.add_entry(name, artifact, repository, serving)[f"{name}-generator"]


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


def test_a_served_model_is_three_steps_the_unary_view_and_the_ensemble(tmp_path: Path, repository: Path) -> None:
    folders = entries.add_entry("smollm2", tmp_path / "engines" / "smollm2", repository)
    assert tuple(folders) == MODELS  # the ensemble after its steps
    assert sorted(path.name for path in repository.iterdir()) == sorted(MODELS)
    roles = [ModelEntry.read(folders[model] / "1" / "model.json").role for model in MODELS[:4]]
    assert roles == ["tokenizer", "generator", "detokenizer", "unary"]
    assert [path.name for path in (folders["smollm2"] / "1").iterdir()] == [".gitkeep"]


def test_the_committed_entries_of_the_default_model_are_what_would_be_written(repository: Path, tmp_path: Path) -> None:
    made = entries.add_entry("smollm2", make_bare_artifact(tmp_path / "engines" / "smollm2"), repository)
    for model, folder in made.items():
        for file in (path.relative_to(folder) for path in folder.rglob("*") if path.is_file()):
            golden = ROOT / "model_repository" / model / file
            assert (folder / file).read_bytes() == golden.read_bytes(), "write it again: triton-llm repo add smollm2"


@pytest.mark.parametrize("role", ROLES_OF_A_MODEL)
def test_every_tensor_of_the_contract_is_in_the_text(role: Role) -> None:
    contract = ROLES[role]
    rows = re.findall(
        r'name: "(\w+)", data_type: (\w+), dims: \[ ([-\d, ]+) \](, optional: true)?', render_role("m", role)
    )
    expected = [
        (r.name, DTYPES[r.dtype], ", ".join(map(str, r.dims)), ", optional: true" if r.optional else "")
        for r in contract.inputs
    ]
    expected += [(r.name, DTYPES[r.dtype], ", ".join(map(str, r.dims)), "") for r in contract.outputs]
    assert rows == expected


def test_instances_are_serving_knobs(tmp_path: Path, repository: Path) -> None:
    serving = ServingConfig(tokenizer_instances=2, detokenizer_instances=3)
    folders = entries.add_entry("smollm2", tmp_path / "a", repository, serving)
    counts = [re.findall(r"count: (\d)", (folders[model] / "config.pbtxt").read_text()) for model in MODELS[:4]]
    assert counts == [["2"], ["1"], ["3"], ["1"]]


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
    add_entry("a", make_bare_artifact(tmp_path / "a"), repository)
    add_entry("b", tmp_path / "b", repository)
    (repository / "foreign").mkdir()
    assert [(e.name, len(e.models), e.present) for e in list_entries(repository)] == [("a", 5, True), ("b", 5, False)]
    removed = remove_entry("a", repository)
    assert [folder.name for folder in removed] == ["a", "a-unary", "a-detokenizer", "a-generator", "a-tokenizer"]
    assert [e.name for e in list_entries(repository)] == ["b"]
    assert not [path for path in repository.iterdir() if path.name.startswith("a")]
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


@pytest.mark.parametrize("role", ROLES_OF_A_MODEL)
def test_a_name_that_is_a_part_of_another_model_is_refused(tmp_path: Path, repository: Path, role: Role) -> None:
    add_entry("llama", tmp_path / "a", repository)
    with pytest.raises(SpecError, match=f"it ends in '-{role}', as a part of the served model 'llama' would"):
        add_entry(f"llama-{role}", tmp_path / "a", repository)
    with pytest.raises(StorageError, match=r"no entry in .*entries there: llama"):
        remove_entry(f"llama-{role}", repository)


def test_an_old_entry_of_such_a_name_can_be_removed(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "check_name", lambda name: name)
    add_entry("llama-unary", tmp_path / "a", repository)
    monkeypatch.undo()
    assert len(remove_entry("llama-unary", repository)) == 5


def test_a_foreign_model_of_the_served_name_is_left_alone(tmp_path: Path, repository: Path) -> None:
    (repository / "llama" / "1").mkdir(parents=True)
    (repository / "llama" / "config.pbtxt").write_text('name: "llama" backend: "onnxruntime"')
    with pytest.raises(StorageError, match="no entry of ours"):
        add_entry("llama", tmp_path / "a", repository)
    assert [path.name for path in repository.iterdir()] == ["llama"]


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
