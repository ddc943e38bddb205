"""A checkpoint whose tokenizer is SentencePiece's tokenizer.model alone, as the first Llamas came; trained here."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

__all__ = ["leave_only_sentencepiece"]

_TEXT = """The ferry left the small harbour at six in the morning, and the gulls followed it past the lighthouse.
When the river rises, the miller opens the upper gate first, then the lower one, and waits for the water.
She wrote the numbers in a column: 12, 7, 305, 48 and 1996; their sum was larger than anyone had guessed.
Im Garten stehen drei alte Apfelbäume, und jeder trägt eine andere Sorte. L'hiver, la maison sent le café.
def mean(values):
    total  =  0.0
    return total / len(values)
"""


def leave_only_sentencepiece(folder: Path, *, kind: str = "bpe", vocab_size: int = 400, **settings: Any) -> Path:
    """Replace the tokenizer files of the checkpoint in ``folder`` and return it.

    ``kind`` is SentencePiece's model type; ``settings`` go into tokenizer_config.json.
    """
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_TEXT.splitlines()),
        model_writer=model,
        model_type=kind,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        byte_fallback=True,
        split_digits=True,
        allow_whitespace_only_pieces=True,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        num_threads=1,
        minloglevel=2,
    )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    named = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**named, **settings}, indent=2) + "\n", "utf-8")
    return folder
