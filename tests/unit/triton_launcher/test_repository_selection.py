from __future__ import annotations

from pathlib import Path

import pytest

from fake_llm_repository import write_artifact, write_entry
from python_llm.artifact import ArtifactError
from python_llm.records import RecordError
from triton_launcher.errors import LaunchRefused
from triton_launcher.repository import check_entries, select_entries


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Served model ``a``: an ensemble and its generator; generator ``b-generator``."""
    artifact = write_artifact(tmp_path / "engines/a")
    for name in ("a-generator", "b-generator"):
        write_entry(tmp_path / "repository", name, artifact)
    ensemble = tmp_path / "repository/a"
    (ensemble / "1").mkdir(parents=True)
    (ensemble / "1/.keep").touch()
    (ensemble / "config.pbtxt").write_text('platform: "ensemble"\n')
    return tmp_path / "repository"


def names(repository: Path, *models: str) -> list[str]:
    return [entry.name for entry in select_entries(repository, models)]


def test_every_complete_entry_is_served_by_default(repository: Path) -> None:
    (repository / "unfinished/1").mkdir(parents=True)
    (repository / "unfinished/config.pbtxt").touch()
    (repository / "README.md").touch()
    assert names(repository) == ["a", "a-generator", "b-generator"]


def test_a_name_stands_for_its_roles(repository: Path) -> None:
    assert names(repository, "a") == ["a", "a-generator"]
    assert names(repository, "b", "b-generator") == ["b-generator"]


def test_an_unknown_name_lists_the_known_ones(repository: Path) -> None:
    with pytest.raises(LaunchRefused, match=r"model 'c': .*complete: a, a-generator, b-generator"):
        select_entries(repository, ["c"])


def test_an_entry_whose_artifact_was_never_built_is_left_out_unless_named(repository: Path, tmp_path: Path) -> None:
    write_entry(repository, "c-generator", tmp_path / "engines/none")
    assert "c-generator" not in names(repository)
    with pytest.raises(ArtifactError, match="no such folder"):
        check_entries(select_entries(repository, ["c"]))


def test_nothing_to_serve_says_what_to_build(tmp_path: Path) -> None:
    write_entry(tmp_path / "repository", "c-generator", tmp_path / "engines/none")
    with pytest.raises(LaunchRefused, match=r"'c-generator' wants the artifact .*make build-engine"):
        select_entries(tmp_path / "repository")


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_or_absent_repository_says_how_to_fill_it(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / "repository").mkdir()
    with pytest.raises(LaunchRefused, match="triton-llm repo add"):
        select_entries(tmp_path / "repository")


def test_a_broken_model_json_names_the_file_and_the_right_key(repository: Path) -> None:
    (repository / "b-generator/1/model.json").write_text('{"role": "generator", "artefact": "x"}')
    with pytest.raises(
        RecordError, match=r"b-generator/1/model\.json': unknown key 'artefact'; did you mean 'artifact'"
    ):
        select_entries(repository)


def test_an_artifact_edited_by_a_byte_is_refused(repository: Path, tmp_path: Path) -> None:
    check_entries(select_entries(repository))
    (tmp_path / "engines/a/weights.bin").write_bytes(b"weightz")
    with pytest.raises(ArtifactError, match=r"weights\.bin"):
        check_entries(select_entries(repository))


def test_an_artifact_of_another_openvino_names_both_versions(tmp_path: Path) -> None:
    artifact = write_artifact(tmp_path / "engines/old", kind="openvino-ir", built_by="1999.1.0")
    write_entry(tmp_path / "repository", "old-generator", artifact)
    with pytest.raises(ArtifactError, match=r"built by openvino 1999\.1\.0, this runtime has openvino \d"):
        check_entries(select_entries(tmp_path / "repository"))
