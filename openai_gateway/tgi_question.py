"""A body of TGI's as a question."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from openai_gateway.caller import Caller
from openai_gateway.questions import Question, prefix_of_text
from openai_gateway.schemas.tgi import GenerateRequest, Parameters
from python_llm.errors import InvalidRequest, Unsupported
from triton_llm_client import GenerateParams

__all__ = ["tgi_question"]

_MAX_NEW_TOKENS = 100
_SEEDS = 2**64

# Parameters of which only the values that ask for nothing can be honoured, and what to do instead.
_REFUSED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "adapter_id": (lambda value: not value, "no adapter is loaded; serve a checkpoint with the adapter merged in"),
    "best_of": (lambda value: value == 1, "nothing is chosen among several; leave it out"),
    "truncate": (lambda value: False, "prompts are not cut; send a shorter one"),
    "typical_p": (lambda value: value == 1.0, "there is no such sampling; send top_p or min_p"),
    "watermark": (lambda value: not value, "nothing is marked; leave it out"),
}
_GUIDES = {"json": "json_schema", "json_schema": "json_schema", "regex": "regex"}
_SAMPLING = ("temperature", "top_k", "top_p")


def tgi_question(body: GenerateRequest, caller: Caller) -> Question:
    """Raises InvalidRequest or Unsupported, with TGI's names."""
    asked = body.asked
    _refuse(asked)
    params = GenerateParams(
        max_tokens=_MAX_NEW_TOKENS if asked.max_new_tokens is None else asked.max_new_tokens,
        seed=None if asked.seed is None else asked.seed % _SEEDS,
        frequency_penalty=asked.frequency_penalty,
        repetition_penalty=asked.repetition_penalty,
        stop_words=asked.stop or (),
        include_stop_str_in_output=True,
        return_stop_reason=True,
        return_log_probs=True,
        return_logprobs=True,
        top_log_probs=asked.top_n_tokens or None,
        return_prompt_log_probs=asked.decoder_input_details or None,
        exclude_input_in_output=False if asked.return_full_text else None,
        tenant=caller.tenant or None,
        priority=caller.priority or None,
        **_guide(asked.grammar),
    )
    return Question(body.inputs, _with_sampling(params, asked), prefix_of_text(body.inputs))


def _refuse(asked: Parameters) -> None:
    for name, (asks_for_nothing, remedy) in _REFUSED.items():
        value = getattr(asked, name)
        if value is not None and not asks_for_nothing(value):
            raise Unsupported("not_supported", f"{name} {value!r}: {remedy}.")


def _with_sampling(params: GenerateParams, asked: Parameters) -> GenerateParams:
    values = {name: getattr(asked, name) for name in _SAMPLING}
    if asked.do_sample is False and all(value is None for value in values.values()):
        return params
    if asked.do_sample and values["temperature"] is None:
        values["temperature"] = 1.0
    return replace(params, **values)


def _guide(grammar: Mapping[str, Any] | None) -> dict[str, Any]:
    if grammar is None:
        return {}
    kind, value = grammar.get("type"), grammar.get("value")
    if not isinstance(kind, str) or kind not in _GUIDES:
        raise InvalidRequest("unknown_guide_type", f"grammar: its type must be one of {', '.join(_GUIDES)}.")
    if kind == "json_schema" and isinstance(value, Mapping) and "schema" in value:
        value = value["schema"]
    guide = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"guided_decoding_guide_type": _GUIDES[kind], "guided_decoding_guide": guide}
