"""Prompts of text whose tokenizer knows more than the model."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken
from tokenizers import Tokenizer as RawTokenizer

from python_llm.errors import InvalidRequest
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
