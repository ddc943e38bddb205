"""OpenAI's request body to GenerateParams; what cannot be honoured is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from python_llm.errors import InvalidRequest, Unsupported
from triton_llm_client.batch_fields import params_of_fields
from triton_llm_client.params import GenerateParams

__all__ = ["params_of_body"]

Fields = dict[str, Any]

# Fields that change no answer.
_WITHOUT_EFFECT = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
# Fields of which only the values that ask for nothing can be honoured.
_NOTHING: Mapping[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "stream": (False,),
    "stream_options": (),
    "echo": (False,),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none",),
    "parallel_tool_calls": (True, False),
    "modalities": (["text"],),
}


def params_of_body(body: Mapping[str, Any], *, chat: bool) -> GenerateParams:
    """``body`` without its prompt and model; null means absent.

    Raises:
        InvalidRequest: an unknown name, a value of another type, or two names that say the same.
        Unsupported: something that a batch cannot do.
    """
    read = _CHAT if chat else _COMPLETIONS
    found: Fields = {}
    for name, value in body.items():
        if name in _WITHOUT_EFFECT or value is None:
            continue
        if name in _NOTHING:
            _check_nothing(name, value)
            continue
        for ours, said in read.get(name, _as_it_is(name))(value).items():
            if found.setdefault(ours, said) != said or (name != ours and ours in body):
                raise InvalidRequest("given_twice", f"{name}: {ours} is given twice; leave one out.")
    return params_of_fields(found)


def _check_nothing(name: str, value: Any) -> None:
    if value not in _NOTHING[name]:
        raise Unsupported("unsupported_parameter", f"{name} {value!r}: a batch line cannot have it; leave it out.")


def _as_it_is(name: str) -> Callable[[Any], Fields]:
    """The contract's own names are taken as well; GenerateParams knows them."""
    return lambda value: {name: value}


def _named(ours: str) -> Callable[[Any], Fields]:
    return lambda value: {ours: value}


def _stop(value: Any) -> Fields:
    return {"stop_words": value} if value else {}


def _log_probs_wanted(value: Any) -> Fields:
    """Of chat completions: a flag, and top_logprobs beside it."""
    if not isinstance(value, bool):
        raise InvalidRequest("wrong_type", f"logprobs {value!r}: it must be true or false.")
    return {"return_log_probs": True, "return_logprobs": True} if value else {}


def _top_log_probs(value: Any) -> Fields:
    return {"top_log_probs": value} if value else {}


def _log_probs_count(value: Any) -> Fields:
    """Of completions: how many alternatives; 0 still asks for the tokens' own."""
    if isinstance(value, bool):
        return _log_probs_wanted(value)
    return {"return_log_probs": True, "return_logprobs": True, **_top_log_probs(value)}


def _response_format(value: Any) -> Fields:
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"guided_decoding_guide_type": "json"}
    if kind == "json_schema":
        return {"guided_decoding_guide_type": "json_schema", "guided_decoding_guide": _schema(value)}
    raise Unsupported(
        "unsupported_parameter", f"response_format {value!r}: its type must be text, json_object or json_schema."
    )


def _schema(value: Mapping[str, Any]) -> Mapping[str, Any]:
    said = value.get("json_schema")
    schema = said.get("schema") if isinstance(said, Mapping) else None
    if not isinstance(schema, Mapping):
        raise InvalidRequest("wrong_type", "response_format.json_schema.schema: it must be an object, the schema.")
    return schema


_BOTH: Mapping[str, Callable[[Any], Fields]] = {
    "n": _named("num_return_sequences"),
    "stop": _stop,
    "response_format": _response_format,
}
_CHAT = {
    **_BOTH,
    "max_completion_tokens": _named("max_tokens"),
    "logprobs": _log_probs_wanted,
    "top_logprobs": _top_log_probs,
}
_COMPLETIONS = {**_BOTH, "logprobs": _log_probs_count}
