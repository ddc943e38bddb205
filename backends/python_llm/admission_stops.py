"""What ends a sequence: stop words, end tokens, stop tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from python_llm.bounds import check_words, whole
from python_llm.errors import InvalidRequest
from python_llm.stop_words import StopWords

__all__ = ["read_end_ids", "read_stop_ids", "read_stop_words"]

_MOST_STOP_WORDS = 1024
_LONGEST_STOP_WORD = 4096
_MOST_STOP_IDS = 1024


def read_stop_words(values: Mapping[str, Any]) -> StopWords:
    return StopWords(
        check_words("stop_words", "stop_word", values.get("stop_words", []), _MOST_STOP_WORDS, _LONGEST_STOP_WORD)
    )


def read_end_ids(values: Mapping[str, Any], of_the_checkpoint: frozenset[int], vocab_size: int) -> frozenset[int]:
    """A given end_id takes the place of the checkpoint's; one beyond the vocabulary never comes."""
    end_id = whole(values, "end_id", -1, 2**31 - 1, default=-1)
    if values.get("ignore_eos"):
        return frozenset()
    if "end_id" not in values:
        return of_the_checkpoint
    return frozenset({end_id}) if 0 <= end_id < vocab_size else frozenset()


def read_stop_ids(values: Mapping[str, Any], vocab_size: int) -> frozenset[int]:
    ids = frozenset(values.get("stop_token_ids", []))
    if len(ids) > _MOST_STOP_IDS:
        raise InvalidRequest("too_many_stop_token_ids", f"stop_token_ids: {len(ids)} ids; at most {_MOST_STOP_IDS}.")
    outside = [token_id for token_id in ids if not 0 <= token_id < vocab_size]
    if outside:
        raise InvalidRequest(
            "id_out_of_vocabulary",
            f"stop_token_ids: {min(outside)}; ids of this model are 0 to {vocab_size - 1}: use its own tokenizer.",
        )
    return ids
