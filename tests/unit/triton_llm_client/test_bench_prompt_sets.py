from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from python_llm.errors import CallerMistake
from tiny_checkpoint import make_tiny_checkpoint
from triton_llm_client.bench.prompt_sets import PROMPT_SETS, Wanted, prompt_set
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.words import plain_words

WANTED = Wanted(count=5, length=40, seed="s", vocabulary=1000)


@pytest.mark.parametrize("name", sorted(PROMPT_SETS))
def test_every_set_gives_as_many_as_wanted_and_the_same_again(name: str) -> None:
    found = prompt_set(name, WANTED)
    assert len(found) == 5
    assert found == prompt_set(name, WANTED)
    assert all(found)


def test_what_the_sets_are() -> None:
    shared = prompt_set("shared-prefix", WANTED)
    assert len({prompt[:32] for prompt in shared}) == 1
    assert len({prompt[32:] for prompt in shared}) == 5
    copies = prompt_set("copy-heavy", WANTED)
    assert all(len(prompt) == 40 and prompt[:10] == prompt[10:20] for prompt in copies)
    assert all(isinstance(prompt, str) for prompt in prompt_set("shipped", WANTED))
    assert len(set(prompt_set("shipped", Wanted(12, 0, "s", 100)))) == 12


def test_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"prompt": "one"}\n\n"two"\n[1, 2, 3]\n', "utf-8")
    assert prompt_set(str(file), WANTED) == ("one", "two", (1, 2, 3), "one", "two")


@pytest.mark.parametrize("line", ["{}", "nothing", "[]", '[1, "a"]', '{"prompt": ""}', "7"])
def test_a_line_without_a_prompt_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(f'"fine"\n{line}\n', "utf-8")
    with pytest.raises(CallerMistake, match="line 2"):
        prompt_set(str(file), WANTED)


def test_an_empty_and_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(CallerMistake, match="empty"):
        prompt_set(str(tmp_path / "empty"), WANTED)
    with pytest.raises(CallerMistake, match="copy-heavy"):
        prompt_set("nowhere", WANTED)


def test_random_prompts_of_words_are_the_same_tokens_as_text(tmp_path: Path) -> None:
    file = make_tiny_checkpoint(tmp_path / "checkpoint", vocab_size=700) / "tokenizer.json"
    words = plain_words(file)
    tokenizer = Tokenizer.from_file(str(file))
    for prompt in random_prompts(20, 50, seed="x", vocabulary=words):
        assert tuple(tokenizer.encode(tokenizer.decode(list(prompt))).ids) == prompt
    assert plain_words(tmp_path / "nowhere") == ()
