"""A checkpoint that has only tokenizer.model: served ids are SentencePiece's own, or it is refused by name."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from build_engines.build import BuildResult, build
from build_engines.errors import CheckpointError
from build_engines.quality import passages
from build_engines.spec import EngineSpec
from build_engines.tokenizer_files import PROBES, check_tokenizer, save_fast_tokenizer
from python_llm.tokenizer import Tokenizer
from sentencepiece_model import leave_only_sentencepiece

ALPHABET = ["the", "a", " ", "  ", "\n", "\t", "é", "日", "😀", "0", "17", ".", "</s>", "▁", "\u00a0", "harbour", "{"]


def _build(folder: Path, engines: Path, **knobs: Any) -> BuildResult:
    return build(EngineSpec(model=str(folder), name="model", engine="copy", quant="none", **knobs), engines)


def _texts() -> list[str]:
    noise = random.Random(0)
    return [*PROBES, *passages(), *("".join(noise.choices(ALPHABET, k=12)) for _ in range(300))]


def test_the_served_ids_are_those_of_the_slow_tokenizer(folder: Path, copy_engine: Path, engines: Path) -> None:
    from transformers import LlamaTokenizer

    leave_only_sentencepiece(folder)
    served = Tokenizer.load(_build(folder, engines).path)
    slow = LlamaTokenizer.from_pretrained(folder)
    assert not slow.is_fast
    for text in _texts():
        assert list(served.encode(text, special_tokens=True)) == slow(text)["input_ids"], text


def test_its_own_words_are_sentencepieces(folder: Path, copy_engine: Path, engines: Path) -> None:
    """Against SentencePiece itself, without transformers, where no special token is in the text."""
    import sentencepiece

    leave_only_sentencepiece(folder)
    served = Tokenizer.load(_build(folder, engines).path)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    for text in _texts():
        if text and "<s>" not in text and "</s>" not in text:
            assert list(served.encode(text, special_tokens=True)) == [model.bos_id(), *model.encode(text)], text


def test_end_tokens_are_found_in_it(folder: Path, copy_engine: Path, engines: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        (folder / name).write_text((folder / name).read_text().replace('"eos_token_id"', '"was_eos_token_id"'))
    leave_only_sentencepiece(folder)
    assert _build(folder, engines).manifest.model.end_token_ids == (2,)


def test_one_of_another_model_is_refused(folder: Path, copy_engine: Path, engines: Path) -> None:
    leave_only_sentencepiece(folder, vocab_size=600)
    with pytest.raises(CheckpointError, match="the tokenizer is another model's") as caught:
        _build(folder, engines)
    assert str(folder) in str(caught.value)


def test_a_conversion_with_other_ids_is_refused(folder: Path, tmp_path: Path) -> None:
    """Without `legacy` transformers' fast form swallows one of the spaces before a text."""
    leave_only_sentencepiece(folder, legacy=False)
    with pytest.raises(CheckpointError) as caught:
        save_fast_tokenizer(folder, tmp_path / "made")
    for part in (str(folder), "it would read ' ' as [", "the slow tokenizer as [", "add the tokenizer.json"):
        assert part in str(caught.value)


def test_no_sentencepiece_at_all_is_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    leave_only_sentencepiece(folder)
    (folder / "tokenizer.model").write_bytes(b"no SentencePiece model")
    with pytest.raises(CheckpointError, match=r"cannot be made a tokenizer\.json .*add the tokenizer\.json") as caught:
        save_fast_tokenizer(folder, tmp_path / "made")
    assert "\n" not in str(caught.value)


def test_a_tokenizer_json_that_nothing_reads_is_refused(folder: Path) -> None:
    file = folder / "tokenizer.json"
    file.write_text('{"model": {"vocab": {"a": 0}}}')
    with pytest.raises(CheckpointError, match="none that the tokenizers library reads") as caught:
        check_tokenizer(file, folder)
    assert str(folder) in str(caught.value)
