"""Tokenizer, configuration and embeddings must speak of one vocabulary.

More embeddings than tokens is common (padded to a round number). An id without an embedding is not: a base vocabulary
that reaches beyond them belongs to another model. Only added tokens may, as some models name one they never use; the
server refuses a prompt that would need it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError
from build_engines.tensors import TensorInfo

__all__ = ["check_vocabulary"]

_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight")


def check_vocabulary(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, TensorInfo], subject: Path | None = None
) -> None:
    """Compare the three, as far as each says; ``subject`` is the checkpoint, where ``folder`` is not it.

    Raises:
        CheckpointError: two of them disagree.
    """
    subject = subject or folder
    rows = next((t.shape[0] for name, t in tensors.items() if name.endswith(_EMBEDDINGS) and len(t.shape) == 2), None)
    claimed = config.get("vocab_size")
    if claimed is not None and (not isinstance(claimed, int) or claimed < 1):
        raise CheckpointError(
            f"checkpoint '{subject}': vocab_size of config.json is {claimed!r}; it must be a whole number, 1 or more: "
            "mend it."
        )
    if rows is not None and claimed is not None and claimed != rows:
        raise CheckpointError(
            f"checkpoint '{subject}': vocab_size of config.json is {claimed}, its embeddings have {rows} rows; they "
            "must be equal: take configuration and weights of one revision."
        )
    size = rows if rows is not None else claimed
    found = _largest_token(folder)
    if size is not None and found is not None and found[1] >= size:
        raise CheckpointError(
            f"checkpoint '{subject}': token {found[0]!r} of its tokenizer has the id {found[1]}, the model has "
            f"{size} embeddings; every token needs one: the tokenizer is another model's: put its own beside the "
            "weights."
        )


def _largest_token(folder: Path) -> tuple[str, int] | None:
    """The token of the base vocabulary with the largest id, and that id."""
    for name in ("tokenizer.json", "vocab.json"):
        file = folder / name
        if not file.is_file():
            continue
        try:
            record = json.loads(file.read_text("utf-8"))
            return _largest(record["model"]["vocab"], record) if name == "tokenizer.json" else _largest(record, {})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"tokenizer '{file}': unreadable ({error!r}); fetch the checkpoint again.") from error
    return None


def _largest(vocabulary: Any, record: Mapping[str, Any]) -> tuple[str, int] | None:
    if isinstance(vocabulary, list):  # Unigram: pieces with their scores, in order
        vocabulary = {piece[0]: index for index, piece in enumerate(vocabulary)}
    added = {entry["id"] for entry in record.get("added_tokens") or []}
    return max(
        ((token, int(index)) for token, index in vocabulary.items() if index not in added),
        key=lambda entry: entry[1],
        default=None,
    )
