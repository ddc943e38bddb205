"""A greedy answer that is taken up elsewhere at any token goes on as if it had never stopped: fp32, a real model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keeping_reply import KeepingReply
from python_llm.admission import Admission
from python_llm.engines.paged.engine import PagedEngine
from python_llm.engines.paged.grammar import GrammarCompiler
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from python_llm.generator import Generator
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer

END = 2
PROMPT = "The ferry left the small harbour"
PENALTIES = {"repetition_penalty": 1.3, "presence_penalty": 0.4, "frequency_penalty": 0.2, "no_repeat_ngram_size": 3}


@pytest.fixture(scope="module")
def generator(model_xml: Path, checkpoint: Path, tokenizer: Tokenizer) -> Iterator[Generator]:
    serving = ServingConfig(kv_cache_precision="f32", inference_precision="f32", kv_cache_bytes=1 << 24)
    grammar = GrammarCompiler(checkpoint / "tokenizer.json", 512, {END})
    engine = PagedEngine(OpenVinoRunner(model_xml, serving), serving, context_length=2048, grammar=grammar)
    admission = Admission(tokenizer, engine.limits, engine.capabilities, serving, (END,))
    generator = Generator(engine, tokenizer, serving, admission)
    yield generator
    generator.close(grace_seconds=0.0)


def ask(generator: Generator, name: str, values: dict[str, Any]) -> KeepingReply:
    reply = KeepingReply()
    generator.submit({"text_input": PROMPT, "max_tokens": 24, "stream": True, **values}, name, reply)
    return reply.wait()


def stop_word_of(text: str) -> str:
    """Something in the middle of the text that comes there first, and begins and ends inside tokens."""
    middle = len(text) // 2
    for length in range(2, 9):
        word = text[middle : middle + length]
        if text.find(word) == middle:
            return word
    raise AssertionError(f"no stop word in {text!r}")


@pytest.mark.parametrize(
    "values",
    [
        {},
        PENALTIES,
        {"stop": True},
        {"stop": True, **PENALTIES},
        {"guided_decoding_guide_type": "regex", "guided_decoding_guide": "[a-z]{4}( [a-z]{2,5}){2}\\."},
        {"guided_decoding_guide_type": "regex", "guided_decoding_guide": "[a-z]{4}( [a-z]{2,5}){2}\\.", **PENALTIES},
    ],
    ids=["plain", "penalties", "stop words", "penalties and stop words", "guide", "guide and penalties"],
)
def test_resumed_at_every_cut_the_text_is_the_same(generator: Generator, values: dict[str, Any]) -> None:
    values = dict(values)
    if values.pop("stop", False):
        values["stop_words"] = [stop_word_of(ask(generator, "whole", values).text), "never comes"]
    whole = ask(generator, "whole", values)
    assert len(whole.ids) > 3
    assert whole.reason == ("length" if not {"stop_words", "guided_decoding_guide"} & set(values) else "stop")
    for cut in range(1, len(whole.ids)):
        given = ask(generator, "given", {**values, "max_tokens": cut})
        assert given.ids == whole.ids[:cut]
        resumed = ask(generator, "resumed", {**values, "resume_ids": whole.ids[:cut]})
        assert whole.ids == [*whole.ids[:cut], *resumed.ids]
        assert whole.text.endswith(resumed.text)
        assert resumed.reason == whole.reason
        sent = whole.text[: len(whole.text) - len(resumed.text)]
        assert given.text.startswith(sent)
