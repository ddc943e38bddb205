"""How the next token is chosen: from a request's values to SamplingParams."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from python_llm.admission_json import read_json
from python_llm.bounds import check_words, real, whole
from python_llm.engine import SamplingParams
from python_llm.errors import InvalidRequest
from python_llm.tokenizer import Tokenizer

__all__ = ["read_sampling"]

_MOST_BAD_WORDS = 1024
_LONGEST_BAD_WORD = 256
_MOST_BIASES = 1024
_LARGEST_BIAS = 100.0
_INT32_MAX = 2**31 - 1


def read_sampling(values: Mapping[str, Any], tokenizer: Tokenizer, vocab_size: int) -> SamplingParams:
    chosen = any(name in values for name in ("top_k", "top_p", "min_p"))
    return SamplingParams(
        temperature=real(values, "temperature", 0.0, 100.0, default=1.0 if chosen else 0.0),
        top_k=whole(values, "top_k", 0, _INT32_MAX, default=0),
        top_p=real(values, "top_p", 0.0, 1.0, default=1.0),
        min_p=real(values, "min_p", 0.0, 1.0, default=0.0),
        seed=whole(values, "seed", 0, 2**64 - 1, default=secrets.randbits(63)),
        repetition_penalty=real(values, "repetition_penalty", 0.0, 100.0, default=1.0, above=True),
        presence_penalty=real(values, "presence_penalty", -2.0, 2.0, default=0.0),
        frequency_penalty=real(values, "frequency_penalty", -2.0, 2.0, default=0.0),
        no_repeat_ngram_size=whole(values, "no_repeat_ngram_size", 0, _INT32_MAX, default=0),
        logit_bias=_biases(values.get("logit_bias", ""), vocab_size),
        bad_words=_bad_words(values.get("bad_words", []), tokenizer, vocab_size),
    )


def _biases(text: str, vocab_size: int) -> tuple[tuple[int, float], ...]:
    if not text.strip():
        return ()
    try:
        parsed = read_json(text)
    except ValueError as error:
        raise InvalidRequest(
            "logit_bias_not_json", f"logit_bias: {error}; send a JSON object: token id -> number."
        ) from error
    if parsed is None or parsed == []:
        return ()
    if not isinstance(parsed, Mapping):
        raise InvalidRequest(
            "logit_bias_not_json", f"logit_bias: a {type(parsed).__name__}; send a JSON object: token id -> number."
        )
    if len(parsed) > _MOST_BIASES:
        raise InvalidRequest("too_many_logit_bias", f"logit_bias: {len(parsed)} tokens; at most {_MOST_BIASES}.")
    read = {_token(key, vocab_size): _bias(key, value) for key, value in parsed.items() if value is not None}
    return tuple(sorted(read.items()))


def _token(key: str, vocab_size: int) -> int:
    if not (len(key) < 20 and key.isdecimal() and int(key) < vocab_size):
        raise InvalidRequest(
            "id_out_of_vocabulary",
            f"logit_bias: token '{key[:40]}'; ids of this model are 0 to {vocab_size - 1}: use its own tokenizer.",
        )
    return int(key)


def _bias(key: str, value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not -_LARGEST_BIAS <= value <= _LARGEST_BIAS:  # NaN is refused too
        raise InvalidRequest(
            "logit_bias_out_of_range",
            f"logit_bias of token {key}: {repr(value)[:40]}; it must be a number from {-_LARGEST_BIAS:g} to "
            f"{_LARGEST_BIAS:g}.",
        )
    return float(value)


def _bad_words(words: Sequence[str], tokenizer: Tokenizer, vocab_size: int) -> tuple[tuple[int, ...], ...]:
    """Each word's tokens as given and behind a space, for it may begin a text or go on with one."""
    found = check_words("bad_words", "bad_word", words, _MOST_BAD_WORDS, _LONGEST_BAD_WORD)
    forms = (form for word in found for form in (word, f" {word.lstrip()}"))
    runs = (tuple(_encode(form, tokenizer)) for form in forms)
    return tuple(dict.fromkeys(run for run in runs if run and max(run) < vocab_size))  # others never come


def _encode(text: str, tokenizer: Tokenizer) -> list[int]:
    try:
        return tokenizer.encode(text, special_tokens=False)
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            "invalid_utf8", f"bad_words: {text[error.start]!a} is half a surrogate pair; send whole characters."
        ) from error
