"""What responses say, put together: sequences, log-probs, metrics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from python_llm.contract import GENERATOR
from python_llm.errors import EngineFailure
from triton_llm_client.chunks import Chunk, chunks_of
from triton_llm_client.log_probs import Alternative, TokenText
from triton_llm_client.metrics import METRICS, Metrics
from triton_llm_client.results import Collector, Completion
from triton_llm_client.results_json import completion_json


def top(*entries: tuple[int, str, float]) -> str:
    return json.dumps([[{"id": i, "text": text, "log_prob": value} for i, text, value in entries]])


def collected(*responses: dict[str, tuple[Any, ...]], index: int = 0) -> Completion:
    collector = Collector("r")
    for outputs in responses:
        for chunk in chunks_of(outputs, index):
            collector.add(chunk)
    return collector.completion()


def test_a_response_of_just_text_is_one_chunk() -> None:
    assert chunks_of({"text_output": ("a",), "output_ids": (1, 2)}, 3) == (Chunk("a", (1, 2), 3),)
    assert chunks_of({}) == (Chunk(""),)


def test_one_response_may_answer_several_sequences() -> None:
    answer = collected(
        {
            "text_output": ("ab", "", "c"),
            "output_ids": (1, 2, 9),
            "sequence_index": (0, 1, 2),
            "finish_reason": ("length", "stop", "stop"),
            "stop_reason": ("", "9", "x"),
            "num_input_tokens": (4,),
            "num_output_tokens": (2, 0, 1),
            "output_log_probs": (-1.0, -2.0, 0.0, 0.0, -3.0, 0.0),  # three rows, filled up
            "cum_log_probs": (-3.0, 0.0, -3.0),
            "seed_used": (7,),
        }
    )
    assert [choice.text for choice in answer.choices] == ["ab", "", "c"]
    assert [choice.output_ids for choice in answer.choices] == [(1, 2), (), (9,)]
    assert [choice.log_probs for choice in answer.choices] == [(-1.0, -2.0), (), (-3.0,)]
    assert [choice.log_prob_sum for choice in answer.choices] == [-3.0, 0.0, -3.0]
    assert [choice.stop_reason for choice in answer.choices] == [None, "9", "x"]
    assert (answer.text, answer.finish_reason, answer.output_tokens) == ("ab", "length", 3)
    assert (answer.input_tokens, answer.seed, answer.request_id) == (4, 7, "r")


def test_streamed_sequences_are_told_apart() -> None:
    answer = collected(
        {"text_output": ("b",), "output_ids": (2,), "sequence_index": (1,)},
        {"text_output": ("a",), "output_ids": (1,), "sequence_index": (0,)},
        {"text_output": ("b",), "output_ids": (2,), "sequence_index": (1,), "finish_reason": ("stop",)},
        {"text_output": ("",), "output_ids": (), "sequence_index": (0,), "finish_reason": ("length",)},
    )
    assert [(c.index, c.text, c.finish_reason) for c in answer.choices] == [(0, "a", "length"), (1, "bb", "stop")]


def test_a_resumed_sequence_keeps_its_index_in_every_chunk() -> None:
    answer = collected(
        {"text_output": ("a",), "output_ids": (1,)},
        {"text_output": ("b",), "output_ids": (2,), "sequence_index": (3,), "finish_reason": ("stop",)},
        index=3,
    )
    assert [(choice.index, choice.text) for choice in answer.choices] == [(3, "ab")]


def test_log_probs_and_alternatives_add_up() -> None:
    first = {
        "text_output": ("a",),
        "output_ids": (1,),
        "output_log_probs": (-0.5,),
        "cum_log_probs": (-0.5,),
        "output_top_log_probs": (top((1, "a", -0.5), (2, "é", -1.0)),),
        "logprobs": (json.dumps([{"1": {"logprob": -0.5, "rank": 1, "decoded_token": "a"}, "2": {}}]),),
        "prompt_log_probs": (-4.0, -5.0),
        "prompt_top_log_probs": (json.dumps([[{"id": 3, "text": "\ufffd", "log_prob": -4.0, "bytes": [195]}]]),),
    }
    last = {**first, "output_log_probs": (-1.5,), "cum_log_probs": (-2.0,), "finish_reason": ("length",)}
    del last["prompt_log_probs"], last["prompt_top_log_probs"]
    answer = collected(first, last)
    choice = answer.choices[0]
    assert (choice.log_probs, choice.log_prob_sum, choice.tokens) == (
        (-0.5, -1.5),
        -2.0,
        (TokenText(1, "a", b"a"),) * 2,
    )
    assert choice.top_log_probs[0] == (Alternative(1, "a", -0.5, b"a"), Alternative(2, "é", -1.0, "é".encode()))
    assert answer.prompt_log_probs == (-4.0, -5.0)
    assert answer.prompt_top_log_probs == ((Alternative(3, "\ufffd", -4.0, b"\xc3"),),)
    assert (answer.log_probs, answer.top_log_probs) == (choice.log_probs, choice.top_log_probs)


def test_metrics_are_the_outputs_of_their_names() -> None:
    assert set(METRICS) <= {row.name for row in GENERATOR.outputs}
    answer = collected(
        {"text_output": ("a",), "output_ids": (1,)},
        {"text_output": ("",), "output_ids": (), **{name: (n,) for n, name in enumerate(METRICS)}, "other": (5,)},
    )
    assert answer.metrics == Metrics(*range(len(METRICS)))


def test_other_outputs_are_kept_by_name() -> None:
    (chunk,) = chunks_of({"text_output": ("",), "output_ids": (), "acceptance_rate": (0.5,)})
    assert chunk.more == {"acceptance_rate": (0.5,)}


def test_what_an_ensemble_leaves_empty_is_absent() -> None:
    blank = {row.name: () for row in GENERATOR.outputs}
    (chunk,) = chunks_of({**blank, "text_output": ("a",), "output_ids": (1,), "finish_reason": ("",)})
    assert (chunk.text, chunk.output_ids, chunk.finish_reason, chunk.metrics) == ("a", (1,), None, None)
    assert (chunk.log_probs, chunk.prompt_log_probs, chunk.log_prob_sum) == ((), (), None)


def test_an_answer_that_cannot_be_taken_apart_is_an_error() -> None:
    with pytest.raises(EngineFailure, match="unreadable_answer"):
        chunks_of({"text_output": ("a", "b"), "output_ids": (1, 2), "num_output_tokens": (1, 2)})


def test_a_completion_is_plain_json() -> None:
    answer = collected(
        {
            "text_output": ("a", "b"),
            "output_ids": (1, 2),
            "num_output_tokens": (1, 1),
            "output_log_probs": (-1.0, -2.0),
            "output_top_log_probs": (top((1, "a", -1.0)), top((2, "b", -2.0))),
            **{name: (0,) for name in METRICS},
        }
    )
    told = json.loads(json.dumps(completion_json(answer)))
    assert (told["text"], told["output_ids"], told["output_tokens"]) == ("a", [1], 2)
    assert told["choices"][1]["top_log_probs"] == [[{"id": 2, "text": "b", "log_prob": -2.0, "bytes": [98]}]]
    assert told["metrics"]["arrival_time_ns"] == 0
