"""Configuration and tokenizer files that say nonsense: one clear error, never a traceback, never a wrong engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from build_engines.build import build
from build_engines.builders._loading import check_loads
from build_engines.errors import CheckpointError
from build_engines.progress import Silent
from build_engines.spec import EngineSpec

Damage = Callable[[Path], object]


def _edit(name: str, **changes: Any) -> Damage:
    def damage(folder: Path) -> None:
        file = folder / name
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return damage


def _config(**changes: Any) -> Damage:
    return _edit("config.json", **changes)


def _write(name: str, content: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(content)


_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"

BROKEN: dict[str, tuple[Damage, list[str]]] = {
    "vocabulary in words": (_config(vocab_size="many"), ["vocab_size", "'many'", "whole number"]),
    "layers in words": (_config(num_hidden_layers="two"), ["num_hidden_layers", "'two'", "whole number"]),
    "no layer": (_config(num_hidden_layers=0), ["num_hidden_layers", "is 0", "1 or more"]),
    "no head": (_config(num_attention_heads=0), ["num_attention_heads", "1 or more"]),
    "no context": (_config(max_position_embeddings=None), ["no max_position_embeddings", "mend it"]),
    "end token in words": (_config(eos_token_id="x"), ["eos_token_id is 'x'", "a list of ids"]),
    "end token as an object": (_config(eos_token_id={"a": 1}), ["eos_token_id", "a list of ids"]),
    "rope in words": (_config(rope_scaling="yarn"), ["config.json cannot be used", "mend it"]),
    "generation settings cut": (_write("generation_config.json", b"{"), ["generation_config.json", "unreadable"]),
    "generation settings as a list": (_write("generation_config.json", b"[]"), ["must be a JSON object"]),
    "template in bytes": (_write("chat_template.jinja", b"\xff\xfe"), ["chat_template.jinja", "no UTF-8"]),
    "added tokens as a list": (
        _edit("tokenizer_config.json", added_tokens_decoder=[1]),
        ["added tokens in a form nobody reads", "fetch"],
    ),
    "a tokenizer.json of another kind": (
        _write("tokenizer.json", b'{"model": {"vocab": {"a": 0}}}'),
        ["none that the tokenizers library reads"],
    ),
    "weights left at Git LFS": (_write("model.safetensors", _POINTER), ["a pointer of Git LFS", "git lfs pull"]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_nonsense_is_one_clear_error(folder: Path, copy_engine: Path, engines: Path, case: str) -> None:
    damage, parts = BROKEN[case]
    damage(folder)
    with pytest.raises(CheckpointError) as caught:
        build(EngineSpec(model=str(folder), name="x", engine="copy", quant="none"), engines)
    text = str(caught.value)
    assert all(part in text for part in [str(folder), *parts]), text
    assert "\n" not in text
    assert ".build-" not in text
    assert not [path for path in engines.glob("*") if path.is_dir()]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"num_hidden_layers": 3}, ["asks for 9 tensors that its weights lack", "model.layers.2.", "one revision"]),
        ({"model_type": "mixtral"}, ["tensors that its weights lack", "experts"]),
        ({"hidden_size": 32}, ["size mismatch", "take both of one revision"]),
        ({"num_attention_heads": 3}, ["size mismatch", "take both of one revision"]),
        ({"hidden_act": "nope"}, ["KeyError: 'nope'", "take both of one revision"]),
    ],
)
def test_a_configuration_of_another_model_is_no_engine_of_noise(
    folder: Path, engines: Path, changes: dict[str, Any], parts: list[str]
) -> None:
    """transformers fills what is missing at random, and says so only in its log."""
    _config(**changes)(folder)
    with pytest.raises(CheckpointError) as caught:
        build(EngineSpec(model=str(folder), name="x", quant="none", check_quality=False), engines)
    text = str(caught.value)
    assert all(part in text for part in [str(folder), *parts]), text
    assert "\n" not in text
    assert not [path for path in engines.glob("*") if path.is_dir()]


def test_weights_that_nobody_reads_are_told(folder: Path) -> None:
    class Notes(Silent):
        said: tuple[str, ...] = ()

        def note(self, text: str) -> None:
            self.said += (text,)

    notes = Notes()
    check_loads(folder, notes, trusted=False)
    assert notes.said == ()
    _config(num_hidden_layers=1)(folder)
    check_loads(folder, notes, trusted=False)
    assert [text for text in notes.said if "left out: 9 tensors" in text and "model.layers.1." in text]
