"""What a request may say beside its prompt."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from numbers import Number
from typing import Any, TypeVar

from python_llm.contract import GENERATOR
from python_llm.errors import InvalidRequest

__all__ = ["JSON_FIELDS", "GenerateParams", "Scalar", "Tensors"]

Scalar = str | int | float | bool
# Tensor name -> its flat values; shapes and dtypes come from the contract.
Tensors = dict[str, Sequence[Scalar]]
T = TypeVar("T")

# Texts that hold JSON: given as objects, they are written here.
JSON_FIELDS = frozenset({"logit_bias", "guided_decoding_guide", "sampling_parameters"})

_BY_THE_CLIENT = "the client sets it; leave it out of 'more'."
_READ_BY_THE_CLIENT = "the client reads what it asks for; leave it out."
# Rows a caller does not set through GenerateParams, and why.
_RESERVED: Mapping[str, str] = {
    **dict.fromkeys(("text_input", "input_ids", "input_lengths", "messages"), _BY_THE_CLIENT),
    **dict.fromkeys(("stream", "streaming", "accumulate_tokens", "stop", "control", "every_output"), _BY_THE_CLIENT),
    **dict.fromkeys(
        ("return_finish_reason", "return_num_input_tokens", "return_num_output_tokens"), _READ_BY_THE_CLIENT
    ),
    "return_cumulative_logprob": "return_log_probs asks for the same; use it.",
}


def _names_the_nearest(cls: type[T]) -> type[T]:
    """A keyword that is no field is the caller's mistake, with the field that was meant."""
    plain = cls.__init__

    @wraps(plain)
    def checked(self: T, **named: Any) -> None:
        for name in named:
            if name not in cls.__dataclass_fields__:  # type: ignore[attr-defined]
                raise _unknown(name)
        plain(self, **named)

    cls.__init__ = checked  # type: ignore[assignment]
    return cls


@_names_the_nearest
@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateParams:
    """Parameters of one request; None, and an empty list, mean absent, so that the server's default holds.

    Each field is the contract's tensor of the same name (docs/tensors.md has the meanings; the server checks the
    bounds). ``timeout`` is in microseconds. ``logit_bias``, ``guided_decoding_guide`` and ``sampling_parameters``
    may be objects, which are sent as JSON. ``more`` takes any other input of the contract by name.

    Raises:
        InvalidRequest: a name that is no input of the generator, or one the client sets itself.
    """

    # Length and stops
    max_tokens: int | None = None
    min_tokens: int | None = None
    stop_words: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    include_stop_str_in_output: bool | None = None
    end_id: int | None = None
    pad_id: int | None = None
    ignore_eos: bool | None = None
    # How the next token is chosen
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    logit_bias: Mapping[int, float] | Mapping[str, float] | str | None = None
    bad_words: Sequence[str] = ()
    guided_decoding_guide_type: str | None = None
    guided_decoding_guide: str | Mapping[str, Any] | bool | None = None
    # Several sequences
    num_return_sequences: int | None = None
    beam_width: int | None = None
    length_penalty: float | None = None
    early_stopping: bool | None = None
    # What is told beside the text
    exclude_input_in_output: bool | None = None
    return_log_probs: bool | None = None
    top_log_probs: int | None = None
    return_logprobs: bool | None = None
    return_prompt_log_probs: bool | None = None
    return_stop_reason: bool | None = None
    return_perf_metrics: bool | None = None
    # Scheduling
    priority: int | None = None
    tenant: str | None = None
    timeout: int | None = None
    cache_salt: str | None = None
    lora_name: str | None = None  # an adapter of the served model
    # Going on with what was produced elsewhere
    resume_ids: Sequence[int] = ()
    resume_index: int | None = None
    # vLLM's object
    sampling_parameters: Mapping[str, Any] | str | None = None
    more: Mapping[str, Scalar | Sequence[Scalar]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.more:
            _check_name(name)
            if getattr(self, name, None) not in (None, ()):
                raise InvalidRequest("given_twice", f"parameter '{name}': it stands in 'more' too; give it once.")

    def tensors(self) -> Tensors:
        """The parameters that are set, by tensor name."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "more"}
        return {name: flat for name, value in {**named, **self.more}.items() if len(flat := _flat(name, value))}


def _flat(name: str, value: Any) -> Sequence[Scalar]:
    if value is None:
        return ()
    if name in JSON_FIELDS and not isinstance(value, str):
        return (_json(name, value),)
    if name == "early_stopping" and isinstance(value, bool):
        return (int(value),)
    if isinstance(value, (str, Number)):
        return (value,)  # type: ignore[return-value]
    if isinstance(value, Mapping) or not hasattr(value, "__len__"):
        raise InvalidRequest("wrong_type", f"{name} {value!r}: it must be a value or a list of values.")
    return value  # type: ignore[no-any-return]


def _json(name: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRequest("wrong_type", f"{name}: {error}; it must be plain JSON values.") from error


def _check_name(name: str) -> None:
    if name in _RESERVED:
        raise InvalidRequest("reserved_parameter", f"parameter '{name}': {_RESERVED[name]}")
    if GENERATOR.input(name) is None:
        raise _unknown(name)


def _unknown(name: str) -> InvalidRequest:
    known = [row.name for row in GENERATOR.inputs if row.name not in _RESERVED and not row.refused]
    close = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean '{close[0]}'?" if close else f"known names: {', '.join(known)}."
    return InvalidRequest("unknown_parameter", f"parameter '{name}': no input of the generator has this name; {remedy}")
