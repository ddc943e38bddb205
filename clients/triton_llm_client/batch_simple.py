"""Simple lines of a batch: a JSON text, or an object with a prompt and GenerateParams' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from python_llm.errors import InvalidRequest, ServeError
from triton_llm_client.batch_fields import params_of_fields, prompt_of_fields, text_field
from triton_llm_client.batch_work import Work
from triton_llm_client.params import GenerateParams
from triton_llm_client.results import Completion
from triton_llm_client.results_json import completion_json

if TYPE_CHECKING:
    from triton_llm_client.batch_line import Line

__all__ = ["SimpleForm"]

_NOT_PARAMETERS = frozenset({"prompt", "messages", "model", "custom_id"})


class SimpleForm:
    """See `batch_line.Form`."""

    def read(self, record: Any) -> Work:
        if isinstance(record, str):
            return Work("", record, GenerateParams())
        if not isinstance(record, Mapping):
            raise InvalidRequest("wrong_type", "line: it must be a JSON text or object.")
        parameters = {name: value for name, value in record.items() if name not in _NOT_PARAMETERS}
        return Work(text_field(record, "model") or "", prompt_of_fields(record), params_of_fields(parameters))

    def answer(self, line: Line, model: str, completion: Completion) -> dict[str, Any]:
        return {
            **_head(line),
            "model": model,
            "text": completion.text,
            "finish_reason": completion.finish_reason,
            "input_tokens": completion.input_tokens,
            "output_tokens": completion.output_tokens,
            "seed": completion.seed,
            **_more(completion),
            "error": None,
        }

    def failure(self, line: Line, error: ServeError) -> dict[str, Any]:
        return {
            **_head(line),
            "text": None,
            "error": {"code": error.code, "reason": error.reason, "message": error.text},
        }


def _more(completion: Completion) -> dict[str, Any]:
    """What only some lines ask for."""
    told = completion_json(completion)
    asked = {name: told[name] for name in ("prompt_log_probs", "prompt_top_log_probs", "metrics") if told[name]}
    choice = completion.choices[0]
    plain = len(completion.choices) == 1 and not choice.log_probs and choice.stop_reason is None
    return asked if plain else {"choices": told["choices"], **asked}


def _head(line: Line) -> dict[str, Any]:
    return {"line": line.number} | ({} if line.custom_id is None else {"custom_id": line.custom_id})
