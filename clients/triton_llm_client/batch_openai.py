"""OpenAI's batch lines: chat completions and completions, and their lines of output."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from python_llm.errors import InvalidRequest, ServeError, Unsupported
from triton_llm_client.batch_fields import params_of_fields, prompt_of_fields, text_field
from triton_llm_client.batch_work import Work
from triton_llm_client.results import Completion

if TYPE_CHECKING:
    from triton_llm_client.batch_line import Line

__all__ = ["OPENAI_KEYS", "OpenAiForm", "openai_form"]

OPENAI_KEYS = frozenset({"body", "url", "method"})
_LINE_KEYS = OPENAI_KEYS | {"custom_id"}

# OpenAI's name -> the contract's.
_RENAMED = {"max_completion_tokens": "max_tokens", "stop": "stop_words"}
# Fields that change no answer.
_WITHOUT_EFFECT = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
# Fields of which only the values that ask for nothing can be honoured.
_NOTHING: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "stream": (False,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none",),
    "parallel_tool_calls": (True, False),
    "modalities": (["text"],),
}
# Of those, the ones that are passed on by their own name; `GenerateParams` knows whether the contract has them.
_PASSED_ON = frozenset({"frequency_penalty", "presence_penalty"})
_ERROR_TYPES = {400: "invalid_request_error", 404: "not_found_error", 501: "invalid_request_error"}


@dataclass(frozen=True, slots=True)
class OpenAiForm:
    """One endpoint; see `batch_line.Form`."""

    url: str
    prompt_name: str
    prefix: str
    object: str
    choice: Callable[[str], dict[str, Any]]

    def read(self, record: Any) -> Work:
        for key in sorted(record.keys() - _LINE_KEYS):
            raise InvalidRequest("unknown_key", f"line, key '{key}': known keys: {', '.join(sorted(_LINE_KEYS))}.")
        if not text_field(record, "custom_id"):
            raise InvalidRequest("missing_custom_id", "line: it has no custom_id; give each line one of its own.")
        if record.get("url") not in _BY_URL:
            known = ", ".join(_BY_URL)
            raise Unsupported("unknown_url", f"url {record.get('url')!r}: lines are sent to one of {known}.")
        if record.get("method", "POST") != "POST":
            raise InvalidRequest("unknown_method", f"method {record['method']!r}: it must be POST.")
        body = record.get("body")
        if not isinstance(body, Mapping):
            raise InvalidRequest("wrong_type", "body: it must be an object.")
        return self._work(body)

    def _work(self, body: Mapping[str, Any]) -> Work:
        for name in {"prompt", "messages"} - {self.prompt_name}:
            if body.get(name) is not None:
                raise InvalidRequest("unknown_parameter", f"{name}: {self.url} takes {self.prompt_name}.")
        prompt = body.get(self.prompt_name)
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
            prompt = prompt[0]
        parameters: dict[str, Any] = {}
        for name, value in body.items():
            if name in (self.prompt_name, "model") or name in _WITHOUT_EFFECT or value is None:
                continue
            if name in _NOTHING and value in _NOTHING[name]:
                continue
            ours = _RENAMED.get(name, name)
            if ours in parameters:
                raise InvalidRequest("given_twice", f"{name}: {ours} is given twice; leave one out.")
            parameters[ours] = _parameter(name, value)
        model = text_field(body, "model") or ""
        return Work(model, prompt_of_fields({self.prompt_name: prompt}), params_of_fields(parameters))

    def answer(self, line: Line, model: str, completion: Completion) -> dict[str, Any]:
        finish = {"index": 0, "logprobs": None, "finish_reason": completion.finish_reason}
        prompt_tokens = completion.input_tokens or 0
        body = {
            "id": f"{self.prefix}-{completion.request_id}",
            "object": self.object,
            "created": int(time.time()),
            "model": model,
            "choices": [{**finish, **self.choice(completion.text)}],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion.output_tokens,
                "total_tokens": prompt_tokens + completion.output_tokens,
            },
        }
        return _result(line, 200, completion.request_id, body, None)

    def failure(self, line: Line, error: ServeError) -> dict[str, Any]:
        kind = _ERROR_TYPES.get(error.http_status, "server_error")
        body = {"error": {"message": str(error), "type": kind, "param": None, "code": error.reason}}
        return _result(line, error.http_status, "", body, {"code": error.reason, "message": str(error)})


_BY_URL = {
    form.url: form
    for form in (
        OpenAiForm(
            "/v1/chat/completions",
            "messages",
            "chatcmpl",
            "chat.completion",
            lambda text: {"message": {"role": "assistant", "content": text}},
        ),
        OpenAiForm("/v1/completions", "prompt", "cmpl", "text_completion", lambda text: {"text": text}),
    )
}


def openai_form(record: Mapping[str, Any]) -> OpenAiForm:
    """The form of the line's url; of chat completions where that is none we know, which `read` then refuses."""
    url = record.get("url")
    return _BY_URL.get(url if isinstance(url, str) else "", _BY_URL["/v1/chat/completions"])


def _parameter(name: str, value: Any) -> Any:
    if name in _NOTHING and name not in _PASSED_ON:
        raise Unsupported("unsupported_parameter", f"{name} {value!r}: a batch line cannot have it; leave it out.")
    return value


def _result(
    line: Line, status: int, request_id: str, body: Mapping[str, Any], error: Mapping[str, str] | None
) -> dict[str, Any]:
    return {
        "id": f"batch_req_{uuid.uuid4().hex}",
        "custom_id": line.custom_id,
        "response": {"status_code": status, "request_id": request_id, "body": body},
        "error": error,
    }
