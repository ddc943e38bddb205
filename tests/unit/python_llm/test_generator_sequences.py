"""Several sequences of one request before an engine that the test moves by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hand_engine import ABLE, HandEngine, echoed, log_prob_of
from keeping_reply import KeepingReply
from python_llm.admission import Admission
from python_llm.generator import Generator
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer

TEXT = "The ferry left the small harbour"


class Bench:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self.engine = HandEngine()
        self.ids = tokenizer.encode(TEXT, special_tokens=True)
        self._table = tokenizer.token_bytes
        serving = ServingConfig()
        self.generator = Generator(
            self.engine, tokenizer, serving, Admission(tokenizer, self.engine.limits, ABLE, serving, ())
        )

    def start(self, **values: Any) -> KeepingReply:
        reply = KeepingReply()
        sampled = {"temperature": 1.0, "num_return_sequences": 2, "max_tokens": len(self.ids)}
        self.generator.submit({"input_ids": self.ids, **sampled, **values}, "x", reply)
        self.engine.wait_for(1)
        return reply

    def finish(self) -> None:
        while self.engine.requests:
            self.engine.step()

    def sequence(self, index: int, count: int) -> list[int]:
        """The ids that the engine makes for it."""
        return [self.ids[(position + index) % len(self.ids)] for position in range(count)]

    def text(self, ids: list[int]) -> str:
        return b"".join(self._table[i] for i in ids).decode("utf-8", "replace")


@pytest.fixture
def bench(tokenizer: Tokenizer) -> Iterator[Bench]:
    bench = Bench(tokenizer)
    yield bench
    bench.generator.close(grace_seconds=0.0)


def test_one_response_holds_all_sequences(bench: Bench) -> None:
    reply = bench.start(return_log_probs=True, num_return_sequences=3)
    bench.finish()
    (outputs,) = reply.wait().sent
    count = len(bench.ids)
    assert outputs["sequence_index"] == [0, 1, 2]
    assert outputs["text_output"] == [bench.text(bench.sequence(index, count)) for index in range(3)]
    assert outputs["output_ids"] == [i for index in range(3) for i in bench.sequence(index, count)]
    assert outputs["finish_reason"] == ["length"] * 3
    assert outputs["num_output_tokens"] == [count] * 3
    assert outputs["num_input_tokens"] == count
    for index, row in enumerate(outputs["output_log_probs"]):
        assert list(row) == [log_prob_of(index, position) for position in range(count)]
        assert outputs["cum_log_probs"][index] == pytest.approx(sum(row))


def test_a_stream_tells_which_sequence_and_ends_once(bench: Bench) -> None:
    reply = bench.start(stream=True)
    bench.finish()
    reply.wait()
    assert reply.finals == 1
    for index in range(2):
        mine = [outputs for outputs in reply.sent if outputs["sequence_index"] == index]
        assert [i for outputs in mine for i in outputs["output_ids"]] == bench.sequence(index, len(bench.ids))
        assert [outputs["finish_reason"] for outputs in mine if "finish_reason" in outputs] == ["length"]
    assert ["seed_used" in outputs for outputs in reply.sent] == [False] * (len(reply.sent) - 1) + [True]


@pytest.mark.parametrize("stream", [True, False])
def test_a_sequence_that_a_stop_word_ends_is_cancelled_alone(bench: Bench, stream: bool) -> None:
    word = " left"
    reply = bench.start(stream=stream, stop_words=[word], max_tokens=8)
    full = [bench.text(bench.sequence(index, 8)) for index in range(2)]
    assert [word in text for text in full] == [True, True]
    while bench.engine.requests:
        bench.engine.step()
    reply.wait()
    texts = ["", ""]
    for outputs in reply.sent:
        indices, said = outputs["sequence_index"], outputs["text_output"]
        for index, text in zip(
            indices if isinstance(indices, list) else [indices], said if isinstance(said, list) else [said], strict=True
        ):
            texts[index] += text
    assert texts == [text[: text.index(word)] for text in full]
    assert bench.engine.cancels == []
    assert bench.engine.requests == {}


def test_the_other_sequences_go_on(bench: Bench) -> None:
    reply = bench.start(stop_words=["The f"], max_tokens=8)
    for _ in range(2):
        bench.engine.step()
    bench.engine.wait_for_cancelled_sequences(1)
    bench.finish()
    (outputs,) = reply.wait().sent
    assert bench.engine.cancelled_sequences == [0]
    assert outputs["finish_reason"] == ["stop", "length"]
    assert outputs["text_output"] == ["", bench.text(bench.sequence(1, 8))]
    assert outputs["num_output_tokens"] == [2, 8]


def test_stop_cancels_all_sequences(bench: Bench) -> None:
    reply = bench.start()
    bench.engine.step()
    bench.generator.cancel("x")
    (outputs,) = reply.wait().sent
    assert outputs["finish_reason"] == ["cancelled", "cancelled"]
    assert outputs["num_output_tokens"] == [1, 1]


def test_beams_come_best_first_and_stop_words_cut_them(bench: Bench) -> None:
    reply = bench.start(temperature=0.0, beam_width=3, stop_words=["ferry"], return_stop_reason=True)
    bench.finish()
    (outputs,) = reply.wait().sent
    assert outputs["sequence_index"] == [0, 1]
    assert outputs["text_output"][0] == "The "
    assert outputs["finish_reason"][0] == "stop"
    assert outputs["stop_reason"][0] == "ferry"


def test_prompt_log_probs_and_no_token(bench: Bench) -> None:
    reply = bench.start(num_return_sequences=1, max_tokens=0, return_prompt_log_probs=True, top_log_probs=2)
    bench.finish()
    (outputs,) = reply.wait().sent
    assert len(outputs["prompt_log_probs"]) == len(bench.ids) - 1
    assert len(json.loads(outputs["prompt_top_log_probs"][0])) == len(bench.ids) - 1
    assert (outputs["text_output"], outputs["finish_reason"]) == ("", "length")


def test_the_engines_tokens_are_what_this_test_thinks(bench: Bench) -> None:
    bench.start()
    ((request, _),) = bench.engine.requests.values()
    assert [echoed(request, 1, position) for position in range(4)] == bench.sequence(1, 4)
    bench.finish()
