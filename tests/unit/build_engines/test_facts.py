from __future__ import annotations

import json
from pathlib import Path

import pytest

from build_engines.errors import CheckpointError
from build_engines.facts import end_token_ids, read_facts
from tiny_checkpoint import make_tiny_checkpoint


def _edit(file: Path, **changes: object) -> None:
    record = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in record.items() if value is not None}))


def test_facts_of_a_llama(tiny: Path) -> None:
    facts = read_facts(tiny)
    assert facts.architecture == "LlamaForCausalLM"
    assert (facts.layers, facts.hidden_size, facts.heads, facts.kv_heads, facts.head_dim) == (2, 64, 4, 2, 16)
    assert (facts.vocab_size, facts.context_length, facts.end_token_ids) == (512, 2048, (2, 0))


def test_facts_under_other_names(tmp_path: Path) -> None:
    facts = read_facts(make_tiny_checkpoint(tmp_path / "gpt2", architecture="gpt2"))
    assert (facts.layers, facts.hidden_size, facts.heads, facts.kv_heads, facts.head_dim) == (2, 64, 4, 4, 16)
    assert facts.context_length == 2048


def test_end_tokens_are_gathered_from_every_file(folder: Path) -> None:
    _edit(folder / "config.json", eos_token_id=7)
    _edit(folder / "generation_config.json", eos_token_id=[7, 9])
    _edit(folder / "tokenizer_config.json", eos_token={"content": "<|endoftext|>"})
    assert end_token_ids(folder) == (7, 9, 0, 2)


def test_the_templates_end_of_turn_counts_wherever_the_template_is(folder: Path) -> None:
    settings = folder / "tokenizer_config.json"
    template = json.loads(settings.read_text())["chat_template"]
    for file in ("config.json", "generation_config.json"):
        _edit(folder / file, eos_token_id=None)
    _edit(settings, eos_token=None, chat_template=None)
    assert end_token_ids(folder) == ()
    (folder / "chat_template.jinja").write_text(template)
    assert end_token_ids(folder) == (2,)


def test_an_architecture_transformers_does_not_know(folder: Path) -> None:
    _edit(folder / "config.json", model_type="unheard_of")
    with pytest.raises(CheckpointError, match=r"config.json cannot be used.*unheard_of"):
        read_facts(folder)
