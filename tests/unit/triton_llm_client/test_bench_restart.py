"""The restart scenario: a folder and a prefix of its own for each round, and two engines that share them."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_llm_client.bench.load import PromptIds
from triton_llm_client.bench.scenarios import measure, restart
from triton_llm_client.bench.subjects import Setting


def test_each_round_has_a_folder_and_a_prefix_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, PromptIds]] = []

    def first_token(artifact: Path, folder: str, prompt: PromptIds) -> float:
        assert artifact == tmp_path
        asked.append((folder, prompt))
        return 0.2 if len(asked) % 2 == 0 else 1.0

    monkeypatch.setattr(restart, "_first_token", first_token)
    figure = measure("restart", Setting(tmp_path, "x"), 2, lambda text: None)
    assert figure.ratio.value == pytest.approx(0.2)
    assert figure.holds
    (one, cold), (same, known), (two, other), _ = asked
    assert one == same != two
    assert cold[:512] == known[:512] != other[:512]
    assert cold[512:] != known[512:]
