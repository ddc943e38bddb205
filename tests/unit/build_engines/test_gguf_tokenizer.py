from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, pre_tokenizers

from build_engines.errors import CheckpointError
from build_engines.gguf_tokenizer import PRE_TOKENIZERS, read_vocabulary, write_tokenizer

_LETTERS = pre_tokenizers.ByteLevel.alphabet()


def _metadata(**changes: Any) -> dict[str, Any]:
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>", *sorted(_LETTERS), "12", "123", "he", "hell"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, 3, 4] + [1] * (len(tokens) - 4),
        "tokenizer.ggml.merges": ["1 2", "12 3", "h e"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 0,
        **{f"tokenizer.{key}": value for key, value in changes.items()},
    }


def _tokenizer(folder: Path, **changes: Any) -> Tokenizer:
    write_tokenizer(read_vocabulary(_metadata(**changes), "test"), folder)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("smollm", ["1", "2", "3"]),
        ("starcoder", ["1", "2", "3"]),
        ("gpt-2", ["123"]),
        ("llama-bpe", ["123"]),
        ("qwen2", ["1", "2", "3"]),
    ],
)
def test_digits_are_cut_as_the_file_says(tmp_path: Path, pre: str, pieces: list[str]) -> None:
    found = _tokenizer(tmp_path, **{"ggml.pre": pre, "ggml.add_bos_token": False}).encode("123")
    assert found.tokens == pieces


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_every_byte_comes_back(tmp_path: Path, pre: str) -> None:
    tokenizer = _tokenizer(tmp_path, **{"ggml.pre": pre, "ggml.add_bos_token": False})
    for text in ("  two  spaces ", "a\u2581b", "é 你 😀\r\n\t", "he said 'hello'", "x<|im_end|>y"):
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    ("pre", "says", "begins"),
    [("smollm", None, False), ("smollm", True, True), ("llama-bpe", None, True), ("llama-bpe", False, False)],
)
def test_bos_comes_only_where_the_file_says(tmp_path: Path, pre: str, says: bool | None, begins: bool) -> None:
    changes = {"ggml.pre": pre} | ({} if says is None else {"ggml.add_bos_token": says})
    ids = _tokenizer(tmp_path, **changes).encode("he").ids
    assert (ids[0] == 1) is begins


def test_eos_comes_only_where_the_file_says(tmp_path: Path) -> None:
    assert _tokenizer(tmp_path, **{"ggml.add_eos_token": True}).encode("he").ids[-1] == 0


def test_special_tokens_are_one_token_and_user_defined_ones_are_text(tmp_path: Path) -> None:
    tokenizer = _tokenizer(tmp_path)
    ids = tokenizer.encode("<|im_start|>he<tool>").ids
    assert [ids[0], ids[-1]] == [1, 3]
    assert tokenizer.decode(ids) == "he<tool>"


def test_ignore_merges_takes_a_whole_word_of_the_vocabulary(tmp_path: Path) -> None:
    whole = _tokenizer(tmp_path, **{"ggml.pre": "llama-bpe", "ggml.add_bos_token": False})
    assert whole.encode("hell").tokens == ["hell"]
    assert _tokenizer(tmp_path).encode("hell").tokens == ["he", "l", "l"]


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({}, (0,)),
        ({"chat_template": "{{ '<|im_end|>' }}"}, (0, 2)),
        ({"ggml.eot_token_id": 2}, (0, 2)),
        ({"ggml.eos_token_id": 2, "chat_template": "{{ '<|im_end|>' }}"}, (2,)),
    ],
)
def test_all_end_tokens_the_file_names(changes: dict[str, Any], ends: tuple[int, ...]) -> None:
    assert read_vocabulary(_metadata(**changes), "test").end_ids == ends


def test_two_tokens_of_one_text_are_damage() -> None:
    with pytest.raises(CheckpointError, match="same text"):
        read_vocabulary(_metadata(**{"ggml.tokens": ["a", "a"]}), "test")


def test_a_sentencepiece_vocabulary(tmp_path: Path) -> None:
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words = ["\u2581", "h", "e", "l", "o", "he", "ll", "hell", "hello", "\u2581hello"]
    changes = {
        "ggml.model": "llama",
        "ggml.tokens": pieces + words,
        "ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(words),
        "ggml.scores": [0.0] * 259 + [-float(rank) for rank in range(len(words))],
        "ggml.unknown_token_id": 0,
        "ggml.eos_token_id": 2,
    }
    tokenizer = _tokenizer(tmp_path, **changes)
    assert tokenizer.encode("hello").tokens == ["<s>", "\u2581hello"]
    for text in ("hello hello", "  hello", "你好 hello\n"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
