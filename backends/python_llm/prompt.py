"""The prompt of a request: text, token ids, or chat messages through the checkpoint's own template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from python_llm.admission_json import read_json
from python_llm.errors import InvalidRequest, Unsupported
from python_llm.tokenizer import Tokenizer

__all__ = ["PromptReader"]

_PROMPTS = ("text_input", "input_ids", "messages")
_NO_MESSAGES = frozenset({"", "null"})
_EMPTY_MESSAGES = frozenset({"[]", "{}"})  # alone they are refused as what they are
_SHOWN = 60
_CALLS = ("tool_calls", "function_call")  # an assistant's message that has one may lack a content


class PromptReader:
    """Turns input values into prompt ids. ``max_tokens`` bounds prompt and output together, in tokens."""

    def __init__(self, tokenizer: Tokenizer, *, vocab_size: int, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._max_tokens = max_tokens

    def read(self, values: Mapping[str, Any]) -> list[int]:
        """The prompt's ids; raises InvalidRequest or Unsupported."""
        given = _given(values)
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise InvalidRequest("one_prompt", f"prompt: {found} given; send exactly one of {', '.join(_PROMPTS)}.")
        if given[0] == "input_ids":
            prompt = self.check_ids(values["input_ids"], "input_ids")
            _check_length(values, len(prompt))
        elif given[0] == "messages":
            prompt = self._encode(self._render(values["messages"]), "messages", special_tokens=False)
        else:
            prompt = self._encode(values["text_input"], "text_input", special_tokens=True)
        if not prompt:
            raise InvalidRequest("empty_prompt", f"{given[0]}: it holds no tokens; send at least one.")
        return prompt

    def _encode(self, text: str, subject: str, *, special_tokens: bool) -> list[int]:
        if text == "":
            raise InvalidRequest("empty_prompt", f"{subject}: empty; send at least one character.")
        try:
            fewest = self._tokenizer.fewest_tokens(text)
        except UnicodeEncodeError as error:  # JSON can say what UTF-8 cannot
            raise InvalidRequest(
                "invalid_utf8", f"{subject}: {text[error.start]!a} is half a surrogate pair; send whole characters."
            ) from error
        if fewest >= self._max_tokens:
            raise self.too_long(f"at least {fewest}")
        ids = self._tokenizer.encode(text, special_tokens=special_tokens)
        # A tokenizer may name added tokens its model has no embedding for.
        return ids if max(ids, default=0) < self._vocab_size else self.check_ids(ids, subject)

    def _render(self, text: str) -> str:
        template = self._tokenizer.template
        if template is None:
            raise Unsupported("no_chat_template", "messages: the checkpoint has no chat template; send text_input.")
        messages, tools = _chat(text)
        return template.render(messages, tools)

    def check_ids(self, ids: Sequence[int], subject: str) -> list[int]:
        size = self._vocab_size
        for position, token_id in enumerate(ids):
            if not 0 <= token_id < size:
                raise InvalidRequest(
                    "id_out_of_vocabulary",
                    f"{subject}[{position}]: {token_id}; ids of this model are 0 to {size - 1}: use its own tokenizer.",
                )
        return list(ids)

    def too_long(self, count: str) -> InvalidRequest:
        return InvalidRequest(
            "prompt_too_long",
            f"prompt: {count} tokens; prompt and output together may have {self._max_tokens}: shorten the prompt.",
        )


def _given(values: Mapping[str, Any]) -> list[str]:
    """The prompts that are set; JSON that is null or empty is not."""
    given = [name for name in _PROMPTS if name in values]
    if "messages" in given:
        text = values["messages"].strip()
        if text in _NO_MESSAGES or (text in _EMPTY_MESSAGES and len(given) > 1):
            given.remove("messages")
    return given


def _check_length(values: Mapping[str, Any], count: int) -> None:
    """NVIDIA's tensorrt_llm model takes the length beside the ids."""
    said = values.get("input_lengths", count)
    if said != count:
        raise InvalidRequest(
            "wrong_length", f"input_lengths {said}: input_ids holds {count}; send the ids alone, without padding."
        )


def _chat(text: str) -> tuple[list[Any], list[Any] | None]:
    """Messages and tools of the ``messages`` input: a JSON list, or an object with both."""
    try:
        parsed = read_json(text)
    except ValueError as error:
        raise InvalidRequest("messages_not_json", f"messages: {error}; send a JSON list of messages.") from error
    chat: dict[str, Any] = parsed if isinstance(parsed, dict) else {"messages": parsed}
    unknown = sorted(set(chat) - {"messages", "tools"})
    if unknown:
        raise InvalidRequest(
            "messages_not_valid", f"messages: unknown key '{unknown[0]}'; known keys: messages, tools."
        )
    parsed, tools = chat.get("messages"), chat.get("tools")
    if not isinstance(parsed, list) or not parsed or not all(isinstance(m, dict) and "role" in m for m in parsed):
        raise InvalidRequest(
            "messages_not_valid", "messages: they must be a non-empty list of objects with 'role' and 'content'."
        )
    parsed = [_with_plain_text(number, message) for number, message in enumerate(parsed)]
    if tools is not None and not isinstance(tools, list):
        raise InvalidRequest("messages_not_valid", "tools: they must be a list of objects.")
    return parsed, tools


def _with_plain_text(number: int, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """OpenAI's clients may write a content as a list of parts; most templates know text alone."""
    subject = f"messages[{number}]"
    if not isinstance(message["role"], str):
        raise _no_text(f"{subject}.role", message, "role", "text")
    content = message.get("content")
    if content is None and any(message.get(name) for name in _CALLS):
        return message
    if not isinstance(content, (str, list)):
        raise _no_text(f"{subject}.content", message, "content", "text or a list of parts of type text")
    if isinstance(content, str):
        return message
    return {
        **message,
        "content": "\n".join(_part_text(f"{subject}.content[{i}]", p) for i, p in enumerate(content)),
    }


def _no_text(subject: str, message: Mapping[str, Any], key: str, rule: str) -> InvalidRequest:
    value = message.get(key)
    found = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else json.dumps(value)
    found = found[:_SHOWN] if key in message else "missing"
    return InvalidRequest("messages_not_valid", f"{subject}: {found}; it must be {rule}: send text.")


def _part_text(subject: str, part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise InvalidRequest("messages_not_valid", f"{subject}: it must be a part with a 'type', or text.")
    if kind != "text":
        raise Unsupported(
            "not_supported", f"{subject}: type '{kind[:40]}'; this model reads text alone: send parts of type text."
        )
    if not isinstance(part.get("text"), str):
        raise InvalidRequest("messages_not_valid", f"{subject}: a part of type text must have a 'text'.")
    text: str = part["text"]
    return text
