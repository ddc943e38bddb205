"""Versions of a served model in the repository's files; a running server is asked in tests/server/repository."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bare_artifact import make_bare_artifact
from build_engines.entry_texts import models_of
from build_engines.errors import MemoryShortage, QualityLoss, StorageError
from build_engines.promotion import promote
from build_engines.repository import add_entry, find_entry, list_entries
from build_engines.served_versions import ServedVersions
from build_engines.version_gate import check_room, room_bytes
from build_engines.version_lock import version_lock
from python_llm.artifact import MANIFEST, Artifact, ArtifactError
from python_llm.settings import ServingConfig
from python_llm.version_policy import read_policy, read_steps, render_policy
from triton_launcher.repository import select_entries
from triton_llm.cli import main


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Serves version 1 of ``m``; version 2 is written beside it."""
    folder = tmp_path / "model_repository"
    add_entry("m", artifact(tmp_path, "one"), folder)
    read(folder).add(2, artifact(tmp_path, "two"), ServingConfig())
    return folder


def artifact(tmp_path: Path, name: str, *, context_length: int = 8192) -> Path:
    """One whose runtime is this one's: a kind that is built by no library."""
    folder = make_bare_artifact(tmp_path / "engines" / name, context_length=context_length)
    file = folder / MANIFEST
    manifest = replace(Artifact.open(folder).manifest, kind="echo")
    file.write_text(manifest.to_json(), "utf-8")
    return folder


def read(repository: Path) -> ServedVersions:
    return ServedVersions.read("m", repository)


def repo(repository: Path, *arguments: object) -> int:
    return main(["repo", *map(str, arguments), "--repository", str(repository)])


def state(repository: Path) -> tuple[int, int | None, tuple[int, ...]]:
    versions = read(repository)
    return versions.active, versions.previous, versions.live


def config(repository: Path, model: str) -> str:
    return (repository / model / "config.pbtxt").read_text("utf-8")


def test_a_version_that_is_written_is_not_served(repository: Path) -> None:
    assert (read(repository).numbers, state(repository)) == ((1, 2), (1, None, (1,)))
    for model in models_of("m"):
        assert read_policy(config(repository, model)) == (1,)
    served = {entry.name: entry.model_json for entry in select_entries(repository)}
    assert served["m-generator"] == repository / "m-generator/1/model.json"
    assert set(served) == set(models_of("m"))


def test_promote_and_roll_back_in_the_files(repository: Path, tmp_path: Path) -> None:
    promote(read(repository), 2)
    assert state(repository) == (2, 1, (2,))
    assert set(re.findall(r"model_version: (\S+)", config(repository, "m"))) == {"2"}
    assert all(read_policy(config(repository, model)) == (2,) for model in models_of("m"))
    assert find_entry("m", repository).artifact == (tmp_path / "engines/two").resolve()
    assert [entry.artifact.name for entry in list_entries(repository)] == ["two"]
    assert repo(repository, "rollback", "m") == 0
    assert state(repository) == (1, 2, (1,))
    assert repo(repository, "rollback", "m") == 0  # and forth again
    assert state(repository) == (2, 1, (2,))


def test_two_versions_stay_live_where_asked(repository: Path) -> None:
    promote(read(repository), 2, keep_old=True)
    assert state(repository) == (2, 1, (1, 2))
    assert read_policy(config(repository, "m-generator")) == (1, 2)
    assert read_policy(config(repository, "m")) == (2,)  # an ensemble has one set of steps
    promote(read(repository), 2)
    assert state(repository) == (2, 1, (2,))


def test_an_entry_that_is_written_again_keeps_its_versions(repository: Path, tmp_path: Path) -> None:
    promote(read(repository), 2, keep_old=True)
    add_entry("m", tmp_path / "engines/two", repository, ServingConfig(max_running=8))
    assert state(repository) == (2, 1, (1, 2))
    running = {v: read(repository).entry(v).serving.max_running for v in (1, 2)}
    assert running == {1: ServingConfig().max_running, 2: 8}
    read(repository).check_unedited()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("promote", "m", 3), r"model 'm' version 3: it is not there; versions there: 1, 2; write it with"),
        (("rollback", "m"), r"model 'm': no version answered before version 1"),
        (("status", "n"), r"model 'n': no entry"),
        (("add", "m", "--version", 2), r"--version 2: name the version's artifact with --artifact"),
        (("add", "m", "--version", 1, "--artifact", "engines/one"), r"version 1: it is live; promote another first"),
        (("add", "m", "--version", 0, "--artifact", "engines/one"), r"version 0: it must be a whole number from 1"),
        (("add", "m", "--version", 3, "--artifact", "engines/one", "--url", "http://x:1"), r"leave it out here"),
        (("add", "m", "--version", 3, "--artifact", "engines/none"), r"engines/none': no such folder"),
    ],
)
def test_each_mistake_has_one_clear_answer(
    repository: Path,
    tmp_path: Path,
    arguments: tuple[object, ...],
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = state(repository)
    assert repo(repository, *arguments) == 2
    assert re.search(text, capsys.readouterr().err)
    assert state(repository) == before


def test_a_version_that_fails_its_gate_is_not_promoted(repository: Path, tmp_path: Path) -> None:
    folder = artifact(tmp_path, "bad")
    quality = {"measured": {}, "bounds": {}, "missed": ["mean KL 0.3, at most 0.02"]}
    (folder / MANIFEST).write_text(replace(Artifact.open(folder).manifest, quality=quality).to_json(), "utf-8")
    read(repository).add(3, folder, ServingConfig())
    with pytest.raises(QualityLoss, match=r"version 3: .* fails its quality gate \(mean KL 0.3, at most 0.02\)"):
        promote(read(repository), 3)
    assert state(repository) == (1, None, (1,))


def test_a_version_whose_artifact_is_gone_is_not_promoted(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "engines/two" / MANIFEST).unlink()
    with pytest.raises(ArtifactError, match=r"engines/two': no artifact.json"):
        promote(read(repository), 2)


def test_a_version_of_another_shape_is_refused(repository: Path, tmp_path: Path) -> None:
    """All versions share one config.pbtxt: another would have Triton load those that run again."""
    shorter = artifact(tmp_path, "short", context_length=512)
    with pytest.raises(StorageError, match=r'version 3: it wants .*string_value: "512".*or serve it under another'):
        read(repository).add(3, shorter, ServingConfig())
    with pytest.raises(StorageError, match=r"count: 2.*tokenizer_instances"):
        read(repository).add(3, tmp_path / "engines/two", ServingConfig(tokenizer_instances=2))
    assert read(repository).numbers == (1, 2)


def test_two_versions_must_fit_the_memory(tmp_path: Path) -> None:
    opened, serving = Artifact.open(artifact(tmp_path, "one")), ServingConfig(kv_cache_bytes=1 << 30)
    wanted = room_bytes(opened, serving)
    assert wanted > 1 << 30
    check_room("m", 2, opened, serving, lambda: wanted)
    with pytest.raises(MemoryShortage, match=r"version 2: it takes 1,4\d\d MB beside .*kv_cache_bytes=BYTES"):
        check_room("m", 2, opened, serving, lambda: wanted - 1)
    on_gpu = replace(opened, manifest=replace(opened.manifest, kind="tensorrt_llm-engine"))
    with pytest.raises(MemoryShortage, match=r"two versions are not planned for"):
        check_room("m", 2, on_gpu, serving, lambda: 1 << 50)


@pytest.mark.parametrize("model", models_of("m"))
def test_a_config_that_was_edited_is_named(repository: Path, model: str) -> None:
    file = repository / model / "config.pbtxt"
    file.write_text(file.read_text().replace("max_batch_size", "# mine\nmax_batch_size", 1))
    with pytest.raises(StorageError, match=rf"{model}/config.pbtxt'.*edited by hand.*repo add m'"):
        promote(read(repository), 2)
    assert repo(repository, "status", "m") == 0  # it tells, too
    artifact_one = read(repository).artifact(1)
    add_entry("m", artifact_one, repository)  # the remedy
    promote(read(repository), 2)
    assert state(repository) == (2, 1, (2,))


def test_a_record_that_says_otherwise_is_named(repository: Path) -> None:
    promote(read(repository), 2)
    (repository / "m/versions.json").write_text(json.dumps({"active": 1, "previous": None}))
    with pytest.raises(StorageError, match=r"steps are of version 2, versions.json says 1"):
        read(repository)
    (repository / "m/versions.json").write_text("{")
    with pytest.raises(StorageError, match=r"versions.json': .*remove it"):
        read(repository)
    (repository / "m/versions.json").unlink()
    assert state(repository) == (2, None, (2,))


def test_a_live_version_without_its_folder_is_named(repository: Path) -> None:
    (repository / "m-unary/1/model.json").unlink()
    with pytest.raises(StorageError, match=r"m-unary/1': a version that is live lacks it"):
        promote(read(repository), 2)


def test_one_command_at_a_time(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with version_lock("m", repository):
        assert repo(repository, "promote", "m", 2) == 2
    assert "another command changes its versions" in capsys.readouterr().err
    assert repo(repository, "promote", "m", 2) == 0


def test_status_tells_each_version(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    promote(read(repository), 2)
    assert repo(repository, "status", "m", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["active"], told["previous"]) == (2, 1)
    assert [(row["version"], row["is"], row["quality"]) for row in told["versions"]] == [
        (1, "previous", "not measured"),
        (2, "active", "not measured"),
    ]


def test_the_policy_is_read_as_it_is_written() -> None:
    assert render_policy((2, 1)) == "version_policy { specific { versions: [ 1, 2 ] } }"
    assert read_policy(f"a\n{render_policy((2, 10))}\n") == (2, 10)
    assert read_policy("") == ()
    assert read_steps("      model_version: -1\n") == 1  # as entries said before there were versions
