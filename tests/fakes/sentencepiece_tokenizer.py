"""A tokenizer in SentencePiece's style, made on the spot: U+2581 for a space, raw bytes for what it does not know."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

__all__ = ["make_sentencepiece_checkpoint", "make_sentencepiece_tokenizer"]

_WORDS = ["▁", "▁the", "▁a", "▁ab", "▁日", "▁▁", "th", "he"]
_PIECES = [*_WORDS, "a", "b", "c", "e", "ab", "abc", "é", "日", "日本", "\ufffd", "."]


def make_sentencepiece_tokenizer() -> Tokenizer:
    """Unigram with byte fallback and Llama's decoder; ids 0 to 2 are <unk>, <s>, </s>, then 256 raw bytes."""
    vocabulary = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    vocabulary += [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    vocabulary += [(piece, -5.0) for piece in _PIECES]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<unk>", "<s>", "</s>")])
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    return tokenizer


def make_sentencepiece_checkpoint(folder: Path, *, context: int = 2048) -> Path:
    """The tokenizer in a folder with what `echo_artifact.make_echo_artifact` reads of a checkpoint; no weights."""
    folder.mkdir(parents=True)
    tokenizer = make_sentencepiece_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": context}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder
