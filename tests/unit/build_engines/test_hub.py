from __future__ import annotations

from pathlib import Path

import pytest

from build_engines import hub
from build_engines.checkpoint import locate
from build_engines.errors import CheckpointError
from build_engines.progress import Silent
from build_engines.spec import EngineSpec
from tests.unit.build_engines.hub_server import COMMIT, serve_hub


@pytest.fixture(autouse=True)
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from huggingface_hub import constants

    folder = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return folder


def test_only_safetensors_configuration_and_tokenizer_are_fetched(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {file.name: file.read_bytes() for file in tiny.iterdir()}
    unwanted = {"pytorch_model.bin": b"pickle", "model.py": b"code", "onnx/model.onnx": b"onnx"}
    with serve_hub({**files, **unwanted}) as server:
        folder = hub.fetch("owner/model", "main", offline=False, endpoint=server.url)
    assert {file.name for file in folder.iterdir()} == set(files)
    assert folder.name == COMMIT
    assert not any(name in path for path in server.asked for name in unwanted)
    again = locate(EngineSpec(model="owner/model", revision=COMMIT, offline=True), Silent())
    assert (again.id, again.revision) == ("owner/model", COMMIT)


@pytest.mark.parametrize(
    ("refusal", "parts"),
    [
        ((403, "GatedRepo"), ["access refused (403)", "licence must be accepted", "HF_TOKEN"]),
        ((401, "GatedRepo"), ["access refused (401)", "licence must be accepted", "HF_TOKEN"]),
        ((403, ""), ["access refused (403)", "licence"]),
        ((401, ""), ["no such model, or it is private (401)", "HF_TOKEN"]),
        ((404, "RepoNotFound"), ["no such model, or it is private (404)", "check the id"]),
        ((404, "RevisionNotFound"), ["revision 'v9'", "no such branch, tag or commit"]),
    ],
)
def test_a_refusal_is_explained(refusal: tuple[int, str], parts: list[str]) -> None:
    with serve_hub({}, refusal) as server, pytest.raises(CheckpointError) as caught:
        hub.fetch("owner/model", "v9", offline=False, endpoint=server.url)
    assert all(part in str(caught.value) for part in ["model 'owner/model'", *parts])


def test_no_network(hub_cache: Path) -> None:
    with serve_hub({}) as server:
        closed = server.url
    with pytest.raises(CheckpointError) as caught:
        hub.fetch("owner/model", "", offline=False, endpoint=closed)
    for part in ("model 'owner/model'", "no such folder here", "the hub cannot be reached", "network"):
        assert part in str(caught.value)
    assert not list(hub_cache.rglob("*.safetensors"))


def test_offline_asks_nobody() -> None:
    with pytest.raises(CheckpointError, match="offline mode is on"):
        locate(EngineSpec(model="owner/model", offline=True), Silent())
