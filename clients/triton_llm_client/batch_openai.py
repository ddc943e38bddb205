"""OpenAI's batch lines: chat completions and completions, and their lines of output."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from python_llm.errors import InvalidRequest, ServeError, Unsupported
from triton_llm_client.batch_fields import prompt_of_fields, text_field
from triton_llm_client.batch_work import Work
from triton_llm_client.openai_log_probs import chat_log_probs, completion_log_probs
from triton_llm_client.openai_params import params_of_body
from triton_llm_client.results import Choice, Completion

if TYPE_CHECKING:
    from triton_llm_client.batch_line import Line

__all__ = ["OPENAI_KEYS", "OpenAiForm", "openai_form"]

OPENAI_KEYS = frozenset({"body", "url", "method"})
_LINE_KEYS = OPENAI_KEYS | {"custom_id"}

_ERROR_TYPES = {400: "invalid_request_error", 404: "not_found_error", 501: "invalid_request_error"}


@dataclass(frozen=True, slots=True)
class OpenAiForm:
    """One endpoint; see `batch_line.Form`."""

    url: str
    prompt_name: str
    prefix: str
    object: str
    choice: Callable[[Choice], dict[str, Any]]

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
        model = text_field(body, "model") or ""
        parameters = {name: value for name, value in body.items() if name not in (self.prompt_name, "model")}
        params = params_of_body(parameters, chat=self.prompt_name == "messages")
        return Work(model, prompt_of_fields({self.prompt_name: prompt}), params)

    def answer(self, line: Line, model: str, completion: Completion) -> dict[str, Any]:
        prompt_tokens = completion.input_tokens or 0
        body = {
            "id": f"{self.prefix}-{completion.request_id}",
            "object": self.object,
            "created": int(time.time()),
            "model": model,
            "choices": [
                {"index": choice.index, "finish_reason": choice.finish_reason, **self.choice(choice)}
                for choice in completion.choices
            ],
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


def _chat_choice(choice: Choice) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": choice.text}, "logprobs": chat_log_probs(choice)}


def _completion_choice(choice: Choice) -> dict[str, Any]:
    return {"text": choice.text, "logprobs": completion_log_probs(choice)}


_BY_URL = {
    form.url: form
    for form in (
        OpenAiForm("/v1/chat/completions", "messages", "chatcmpl", "chat.completion", _chat_choice),
        OpenAiForm("/v1/completions", "prompt", "cmpl", "text_completion", _completion_choice),
    )
}


def openai_form(record: Mapping[str, Any]) -> OpenAiForm:
    """The form of the line's url; of chat completions where that is none we know, which `read` then refuses."""
    url = record.get("url")
    return _BY_URL.get(url if isinstance(url, str) else "", _BY_URL["/v1/chat/completions"])


def _result(
    line: Line, status: int, request_id: str, body: Mapping[str, Any], error: Mapping[str, str] | None
) -> dict[str, Any]:
    return {
        "id": f"batch_req_{uuid.uuid4().hex}",
        "custom_id": line.custom_id,
        "response": {"status_code": status, "request_id": request_id, "body": body},
        "error": error,
    }
