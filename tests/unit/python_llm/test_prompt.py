"""Prompts: text whose tokenizer knows more than the model, and chat contents in parts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import AddedToken
from tokenizers import Tokenizer as RawTokenizer

from python_llm.chat_template import ChatTemplate
from python_llm.errors import InvalidRequest, ServeError
from python_llm.prompt import PromptReader
from python_llm.tokenizer import Tokenizer


def test_an_added_token_without_an_embedding_is_refused_where_it_is_used(byte_level: RawTokenizer) -> None:
    raw = RawTokenizer.from_str(byte_level.to_str())
    raw.add_special_tokens([AddedToken("<image>", special=True)])
    reader = PromptReader(Tokenizer(raw, None), vocab_size=512, max_tokens=64)
    assert reader.read({"text_input": "The ferry"})
    with pytest.raises(InvalidRequest) as caught:
        reader.read({"text_input": "The <image>"})
    assert caught.value.reason == "id_out_of_vocabulary"
    assert "text_input[" in caught.value.text
    assert "512" in caught.value.text


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([part("The ferry")], "The ferry"),
        ([part("The ferry"), part("left the harbour")], "The ferry\nleft the harbour"),
        (["The ferry", part("left")], "The ferry\nleft"),
        ([], ""),
    ],
)
def test_a_content_of_text_parts_is_that_text(tokenizer: Tokenizer, parts: list[Any], text: str) -> None:
    reader = PromptReader(tokenizer, vocab_size=512, max_tokens=512)
    asked = (json.dumps([{"role": "user", "content": content}]) for content in (parts, text))
    in_parts, plain = (reader.read({"messages": messages}) for messages in asked)
    assert in_parts == plain


@pytest.mark.parametrize(
    ("content", "code", "reason", "words"),
    [
        ({"type": "image_url", "image_url": {}}, "UNSUPPORTED", "not_supported", "'image_url'; this model reads text"),
        ({"text": "no type"}, "INVALID_ARG", "messages_not_valid", "'type'"),
        ({"type": "text"}, "INVALID_ARG", "messages_not_valid", "must have a 'text'"),
        ({"type": "text", "text": 5}, "INVALID_ARG", "messages_not_valid", "must have a 'text'"),
        (5, "INVALID_ARG", "messages_not_valid", "'type'"),
    ],
)
def test_other_parts_are_refused_by_name(
    tokenizer: Tokenizer, content: Any, code: str, reason: str, words: str
) -> None:
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": [part("a"), content]}]
    with pytest.raises(ServeError) as caught:
        PromptReader(tokenizer, vocab_size=512, max_tokens=512).read({"messages": json.dumps(messages)})
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert caught.value.text.startswith("messages[1].content[1]: ")
    assert words in caught.value.text


def test_a_message_of_tool_calls_may_lack_a_content(byte_level: RawTokenizer) -> None:
    calls = {"role": "assistant", "tool_calls": [{"function": {"name": "add"}}]}
    template = ChatTemplate("{{ messages[0].tool_calls[0].function.name }}", {})
    reader = PromptReader(Tokenizer(byte_level, template), vocab_size=512, max_tokens=64)
    for message in (calls, {**calls, "content": None}):
        assert reader.read({"messages": json.dumps([message])}) == reader.read({"text_input": "add"})
