"""From a scorer's request to a job: which rows of tokens to score, where they stand, what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from python_llm.contract import CACHED_OUTPUTS, SCORER
from python_llm.errors import InvalidRequest
from python_llm.request import InputTensor
from python_llm.scoring.runner import Ints
from python_llm.tokenizer import Tokenizer

__all__ = ["MOST_ALTERNATIVES", "Job", "JobReader", "tokens_of_mask"]

MOST_ALTERNATIVES = 100
_Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Job:
    """``rows[i]`` stands at ``begins[i]`` of an answer's row of ``width`` tokens; the rest is padding."""

    rows: tuple[Ints, ...]
    begins: tuple[int, ...]
    width: int
    top_k: int
    outputs: frozenset[str]


@dataclass(frozen=True)
class JobReader:
    """``longest``: most tokens of a row; ``cached``: behind Triton's response cache."""

    tokenizer: Tokenizer
    vocab_size: int
    longest: int
    cached: bool = False

    def read(self, tensors: Iterable[InputTensor], outputs: Iterable[str]) -> Job:
        """Check all that a request says; raises InvalidRequest."""
        given = {tensor.name(): tensor.as_numpy() for tensor in tensors}
        _check_names(given)
        rows, begins, width = self._text_rows(given) if "text_input" in given else self._id_rows(given)
        for number, row in enumerate(rows):
            self._check(row, number)
        wanted = frozenset(outputs)
        if self.cached and wanted != CACHED_OUTPUTS:
            raise InvalidRequest(
                "outputs_and_cache",
                f"outputs {', '.join(sorted(wanted))}: this scorer has a response cache, which does not tell requests "
                "by their outputs; name none, or all that it has.",
            )
        return Job(rows, begins, width, _alternatives(given, self.vocab_size), wanted)

    def _text_rows(self, given: Mapping[str, _Array]) -> tuple[tuple[Ints, ...], tuple[int, ...], int]:
        rows = []
        for number, item in enumerate(given["text_input"].reshape(-1).tolist()):
            text = _text(item, number)
            fewest = self.tokenizer.fewest_tokens(text)
            if fewest > self.longest:
                raise self._too_long(f"text_input[{number}]", f"at least {fewest}")
            rows.append(np.asarray(self.tokenizer.encode(text, special_tokens=True), np.int64))
        return tuple(rows), (0,) * len(rows), max(map(len, rows), default=0)

    def _id_rows(self, given: Mapping[str, _Array]) -> tuple[tuple[Ints, ...], tuple[int, ...], int]:
        ids = np.asarray(given["input_ids"], np.int64)
        mask = given.get("attention_mask", np.ones(ids.shape, np.int32))
        if mask.shape != ids.shape:
            raise InvalidRequest(
                "wrong_shape",
                f"attention_mask: shape {_shape(mask)}, input_ids has {_shape(ids)}; they must be equal: send one "
                "number for each id.",
            )
        spans = [tokens_of_mask(np.asarray(row), number) for number, row in enumerate(mask)]
        rows = tuple(row[begin:end] for row, (begin, end) in zip(ids, spans, strict=True))
        return rows, tuple(begin for begin, _ in spans), ids.shape[1]

    def _check(self, row: Ints, number: int) -> None:
        if not len(row):
            raise InvalidRequest("empty_prompt", f"row {number}: it holds no tokens; send at least one.")
        if len(row) > self.longest:
            raise self._too_long(f"row {number}", str(len(row)))
        wrong = np.flatnonzero((row < 0) | (row >= self.vocab_size))
        if len(wrong):
            raise InvalidRequest(
                "id_out_of_vocabulary",
                f"row {number}, token {wrong[0]}: {row[wrong[0]]}; ids of this model are 0 to {self.vocab_size - 1}: "
                "use its own tokenizer.",
            )

    def _too_long(self, subject: str, count: str) -> InvalidRequest:
        return InvalidRequest(
            "request_too_long", f"{subject}: {count} tokens; at most {self.longest} are scored together: shorten it."
        )


def tokens_of_mask(mask: _Array, number: int = 0) -> tuple[int, int]:
    """(begin, end) of the ones of a row's mask.

    Raises:
        InvalidRequest: a value that is neither 0 nor 1, or zeros between ones.
    """
    values = np.asarray(mask, np.int64)
    if not np.isin(values, (0, 1)).all():
        odd = values[~np.isin(values, (0, 1))][0]
        raise InvalidRequest("mask_not_valid", f"attention_mask, row {number}: {odd}; it must be of 0 and 1.")
    ones = np.flatnonzero(values)
    if not len(ones):
        return 0, 0
    begin, end = int(ones[0]), int(ones[-1]) + 1
    if end - begin != len(ones):
        raise InvalidRequest(
            "mask_not_valid",
            f"attention_mask, row {number}: zeros between tokens; padding must stand before or after them.",
        )
    return begin, end


def _check_names(given: Mapping[str, _Array]) -> None:
    for name in given:
        if SCORER.input(name) is None:
            raise InvalidRequest("unknown_input", f"input '{name}': this model has no such input.")
    prompts = [name for name in ("input_ids", "text_input") if name in given]
    if len(prompts) != 1:
        found = " and ".join(prompts) or "none"
        raise InvalidRequest("one_prompt", f"prompt: {found} given; send exactly one of input_ids, text_input.")
    if "attention_mask" in given and "input_ids" not in given:
        raise InvalidRequest("wrong_shape", "attention_mask: text has none; leave it out, or send input_ids.")
    if not len(given[prompts[0]]):
        raise InvalidRequest("empty_prompt", f"{prompts[0]}: zero rows; send at least one.")


def _alternatives(given: Mapping[str, _Array], vocab_size: int) -> int:
    wanted: Sequence[int] = given["top_k"].reshape(-1).tolist() if "top_k" in given else [1]
    if len(set(wanted)) != 1:
        raise InvalidRequest("top_k_out_of_range", f"top_k {list(wanted)}: it must be one number for all rows.")
    most = min(MOST_ALTERNATIVES, vocab_size)
    if not 1 <= wanted[0] <= most:  # an output without elements would keep Triton from caching the answer
        raise InvalidRequest("top_k_out_of_range", f"top_k {wanted[0]}: it must be from 1 to {most}.")
    return wanted[0]


def _text(item: bytes | str, number: int) -> str:
    try:
        return item if isinstance(item, str) else item.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            "invalid_utf8", f"text_input[{number}]: byte {error.start} of the text is no UTF-8; send UTF-8 text."
        ) from error


def _shape(array: _Array) -> str:
    return f"[{','.join(map(str, array.shape))}]"
