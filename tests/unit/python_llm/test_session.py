"""What a session sends for the engine's events: the outputs asked for, each once and where it belongs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from python_llm.detokenizer import chunk_texts
from python_llm.engine import Failed, Finished, PromptLogProbs, Tokens
from python_llm.errors import EngineFailure
from python_llm.tokenizer import Tokenizer
from session_events import PROMPT, finished, open_session, tokens


def test_a_response_of_a_stream_with_just_text_has_two_tensors(tokenizer: Tokenizer) -> None:
    session, reply = open_session(tokenizer, stream=True)
    session.on_events([tokens(0, 0, [339])])
    assert set(reply.sent[0]) == {"text_output", "output_ids"}


def test_what_is_asked_for_is_sent_and_no_more(tokenizer: Tokenizer) -> None:
    usual = {"text_output", "output_ids", "sequence_index", "finish_reason", "seed_used"}
    counts = {"num_input_tokens", "num_output_tokens"}
    metrics = {
        *("arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns"),
        *("kv_cache_reused_blocks", "kv_cache_alloc_new_blocks", "kv_cache_alloc_total_blocks"),
        *("kv_cache_reused_block", "kv_cache_missed_block", "kv_cache_hit_rate", "batch_index"),
        *("total_draft_tokens", "total_accepted_draft_tokens", "acceptance_rate"),
    }
    rows: list[tuple[dict[str, Any], set[str]]] = [
        ({}, usual | counts),
        ({"return_finish_reason": False}, usual - {"finish_reason"} | counts),
        ({"return_num_input_tokens": False, "return_num_output_tokens": False}, usual),
        ({"return_stop_reason": True}, usual | counts | {"stop_reason"}),
        ({"return_perf_metrics": True}, usual | counts | metrics),
        ({"return_log_probs": True}, usual | counts | {"output_log_probs", "cum_log_probs"}),
        (
            {"return_log_probs": True, "top_log_probs": 2},
            usual | counts | {"output_log_probs", "cum_log_probs", "output_top_log_probs"},
        ),
        ({"return_prompt_log_probs": True}, usual | counts | {"prompt_log_probs", "prompt_tokens"}),
        (
            {"return_prompt_log_probs": True, "top_log_probs": 1},
            usual | counts | {"prompt_log_probs", "prompt_top_log_probs", "prompt_tokens"},
        ),
        ({"return_logprobs": True}, usual | counts | {"logprobs"}),
        ({"return_cumulative_logprob": True}, usual | counts | {"cumulative_logprob"}),
    ]
    for values, expected in rows:
        session, reply = open_session(tokenizer, **values)
        session.on_events([PromptLogProbs((-1.0, -2.0)), tokens(0, 0, [339, 278]), finished(0, 2)])
        assert set(reply.sent[0]) == expected, values


def test_metrics_come_from_the_engine_even_after_a_stop_word(tokenizer: Tokenizer) -> None:
    session, reply = open_session(tokenizer, return_perf_metrics=True, stop_words=["f"], stream=True)
    session.on_events([tokens(0, 0, [339, 278, 262])])
    assert session.cut_short == [0]
    assert reply.finals == 0  # the engine has not told its usage
    usage = {
        "blocks_reused": 3,
        "blocks_allocated": 1,
        "first_scheduled_ns": 5,
        "first_token_ns": 7,
        "last_token_ns": 9,
    }
    session.on_events([tokens(0, 3, [347]), finished(0, 4, drafts_proposed=4, drafts_accepted=3, **usage)])
    last = reply.sent[-1]
    assert (reply.text, reply.reason, session.cut_short) == ("The ", "stop", [])
    assert last["kv_cache_alloc_total_blocks"] == 4
    assert (last["kv_cache_hit_rate"], last["acceptance_rate"]) == (0.75, 0.75)
    assert (last["first_scheduled_time_ns"], last["first_token_time_ns"], last["last_token_time_ns"]) == (5, 7, 9)
    assert last["arrival_time_ns"] == 1_500_000_000


@pytest.mark.parametrize(
    ("values", "end", "reason"),
    [
        ({"stop_words": ["f"]}, finished(0, 3), "f"),
        ({"stop_token_ids": [9]}, finished(0, 3, stop_id=9), "9"),
        ({}, finished(0, 3), ""),
    ],
)
def test_the_stop_reason_is_the_word_or_the_token(
    tokenizer: Tokenizer, values: dict[str, Any], end: Finished, reason: str
) -> None:
    session, reply = open_session(tokenizer, return_stop_reason=True, **values)
    session.on_events([tokens(0, 0, [339, 278, 262]), end])
    assert reply.sent[-1]["stop_reason"] == reason
    assert reply.reason == ("stop" if reason else "length")


def test_no_token_and_prompt_log_probs(tokenizer: Tokenizer) -> None:
    session, reply = open_session(tokenizer, max_tokens=0, return_prompt_log_probs=True, top_log_probs=1)
    session.on_events([PromptLogProbs((-1.5, -2.5), (((7, -0.5),), ((8, float("-inf")),))), finished(0, 0)])
    (outputs,) = reply.sent
    assert (outputs["text_output"], outputs["output_ids"], outputs["finish_reason"]) == ("", (), "length")
    assert outputs["prompt_log_probs"] == (-1.5, -2.5)
    (alternatives,) = outputs["prompt_top_log_probs"]
    assert [[entry["log_prob"] for entry in top] for top in json.loads(alternatives)] == [[-0.5], [-9999.0]]


def test_a_stream_tells_prompt_log_probs_once_and_first(tokenizer: Tokenizer) -> None:
    session, reply = open_session(tokenizer, stream=True, return_prompt_log_probs=True, num_return_sequences=2)
    session.on_events([PromptLogProbs((-1.5, -2.5)), tokens(0, 0, [339]), tokens(1, 0, [278])])
    session.on_events([finished(0, 1), finished(1, 1)])
    assert ["prompt_log_probs" in outputs for outputs in reply.sent] == [True, False, False, False]
    assert [outputs["sequence_index"] for outputs in reply.sent] == [0, 1, 0, 1]
    assert [outputs.get("finish_reason") for outputs in reply.sent] == [None, None, "length", "length"]
    assert ["num_input_tokens" in outputs for outputs in reply.sent] == [False, False, False, True]


def test_vllms_log_probs_name_the_token_first(tokenizer: Tokenizer) -> None:
    session, reply = open_session(tokenizer, return_logprobs=True, top_log_probs=2)
    event = Tokens(0, (339, 278), (-2.0, -0.5), (((278, -0.5), (262, -1.5)), ((278, -0.5), (3, -0.75))))
    session.on_events([event, finished(0, 2)])
    first, second = json.loads(reply.sent[0]["logprobs"])
    assert list(first) == ["339", "278", "262"]
    assert first["339"] == {"logprob": -2.0, "rank": None, "decoded_token": "The"}
    assert second["278"]["rank"] == 1
    assert len(second) == 2


def test_a_resumed_sequence_keeps_its_index(tokenizer: Tokenizer) -> None:
    session, reply = open_session(tokenizer, resume_ids=[278], resume_index=3)
    assert session.request.first_index == 3
    session.on_events([tokens(3, 1, [262]), finished(3, 2)])
    assert (reply.sent[0]["sequence_index"], reply.sent[0]["num_output_tokens"]) == (3, 2)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("every_output", [True, False])
def test_the_prompt_is_repeated_where_asked(tokenizer: Tokenizer, stream: bool, every_output: bool) -> None:
    values = {"exclude_input_in_output": False, "num_return_sequences": 2, "temperature": 1.0}
    session, reply = open_session(tokenizer, stream=stream, every_output=every_output, **values)
    for at, ids in enumerate(([265, 339], [262, 278])):
        session.on_events([tokens(0, at, ids[:1]), tokens(1, at, ids[1:])])
    session.on_events([finished(0, 2), finished(1, 2)])
    prompt, *said = (tokenizer.token_bytes for _ in range(3))
    texts = ["", ""]
    for outputs in reply.sent:
        shares = (
            chunk_texts(prompt, outputs["chunk_ids"], outputs["text_span"]) if every_output else outputs["text_output"]
        )
        indices = outputs["sequence_index"]
        for index, text in zip(
            indices if isinstance(indices, list) else [indices],
            shares if isinstance(shares, list) else [shares],
            strict=True,
        ):
            texts[index] += text
    begin = b"".join(prompt[i] for i in PROMPT).decode()
    ends = [b"".join(table[i] for i in ids).decode() for table, ids in zip(said, ([265, 262], [339, 278]), strict=True)]
    assert texts == [begin + end for end in ends]
    assert sorted(i for outputs in reply.sent for i in outputs["output_ids"]) == sorted([265, 262, 339, 278])


def test_an_echoed_prompt_comes_though_nothing_is_generated(tokenizer: Tokenizer) -> None:
    session, reply = open_session(
        tokenizer, exclude_input_in_output=False, max_tokens=0, return_prompt_log_probs=True, stream=True
    )
    session.on_events([PromptLogProbs((-1.0, -1.0)), finished(0, 0)])
    assert reply.text == b"".join(tokenizer.token_bytes[i] for i in PROMPT).decode()


def test_an_ensembles_response_has_every_output(tokenizer: Tokenizer) -> None:
    session, reply = open_session(tokenizer, every_output=True, stream=True)
    session.on_events([tokens(0, 0, [339])])
    session.on_events([finished(0, 1)])
    first, last = reply.sent
    assert set(first) == set(last)
    assert "text_output" not in first
    assert (first["chunk_ids"], first["text_span"], first["finish_reason"]) == ((339,), (1, 0, 3), "")
    assert (first["output_log_probs"], first["arrival_time_ns"], last["stop_reason"]) == ((), (), ())
    assert (last["finish_reason"], last["num_input_tokens"], last["num_output_tokens"]) == ("length", 3, 1)


def test_a_failure_ends_all_sequences_with_one_error(tokenizer: Tokenizer) -> None:
    session, reply = open_session(tokenizer, num_return_sequences=2, stream=True)
    session.on_events([tokens(0, 0, [339]), finished(0, 1)])
    session.on_events([tokens(1, 0, [339]), Failed(EngineFailure("engine_failed", "engine: gone."))])
    assert reply.finals == 1
    assert reply.error is not None
    assert session.ended_at_engine
    assert session.cut_short == []


def test_the_prompts_tokens_are_told_by_their_bytes(tokenizer: Tokenizer) -> None:
    session, reply = open_session(tokenizer, return_prompt_log_probs=True)
    session.on_events([PromptLogProbs((-1.0,)), tokens(0, 0, [339]), finished(0, 1)])
    told = json.loads(reply.sent[0]["prompt_tokens"][0])
    assert [one["id"] for one in told] == list(session.request.prompt_ids)
    for one in told:
        raw = tokenizer.token_bytes[one["id"]]
        assert bytes(one["bytes"]) == raw if "bytes" in one else one["text"].encode() == raw
