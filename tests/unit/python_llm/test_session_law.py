"""A session's law: however the engine's events fall into deliveries, each sequence says the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hand_engine import log_prob_of, top_of
from keeping_reply import KeepingReply
from python_llm.engine import Event
from python_llm.session import Session
from python_llm.tokenizer import Tokenizer
from session_events import finished, open_session, tokens


@dataclass(frozen=True)
class Said:
    """What a caller has of one sequence in the end."""

    text: str
    ids: list[int]
    log_probs: list[float]
    tops: list[Any]
    reason: str
    count: int


def collected(reply: KeepingReply, count: int) -> list[Said]:
    """From responses of one sequence each, or from the one response of all."""
    said: dict[int, list[dict[str, Any]]] = {index: [] for index in range(count)}
    for outputs in reply.sent:
        indices = outputs.get("sequence_index", 0)
        for at, index in enumerate(indices if isinstance(indices, list) else [indices]):
            said[index].append(_of(outputs, at))
    return [_sum(parts) for parts in said.values()]


def _of(outputs: Any, at: int) -> dict[str, Any]:
    """One sequence's share of a response; the ids of several follow each other, as long as their log-probs."""
    rows = outputs["output_log_probs"]
    begin = sum(map(len, rows[:at]))
    share = {n: v[at] if isinstance(v, list) else v for n, v in outputs.items() if not n.startswith("output_ids")}
    return {**share, "output_ids": outputs["output_ids"][begin : begin + len(rows[at])], "log_probs": rows[at]}


def _sum(parts: list[dict[str, Any]]) -> Said:
    return Said(
        "".join(part["text_output"] for part in parts),
        [i for part in parts for i in part["output_ids"]],
        [value for part in parts for value in part["log_probs"]],
        [top for part in parts for top in json.loads(part["output_top_log_probs"])],
        parts[-1]["finish_reason"],
        parts[-1]["num_output_tokens"],
    )


def deliver(session: Session, events: Sequence[Event], cuts: Sequence[int]) -> None:
    rest = list(events)
    for cut in cuts:
        session.on_events(rest[:cut])
        rest = rest[cut:]
    session.on_events(rest)


@given(
    data=st.data(),
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 4), max_size=20),
    words=st.lists(st.sampled_from(["t", "the ", "er", " f", "zz", "e\u00e9"]), max_size=2),
    alternatives=st.integers(1, 2),
    keep=st.booleans(),
)
def test_the_split_of_events_changes_nothing(
    tokenizer: Tokenizer,
    data: st.DataObject,
    lengths: list[int],
    cuts: list[int],
    words: list[str],
    alternatives: int,
    keep: bool,
) -> None:
    count = len(lengths)
    ids = [data.draw(st.lists(st.integers(3, 511), min_size=n, max_size=n)) for n in lengths]
    queues = [
        [tokens(i, at, [token], alternatives) for at, token in enumerate(ids[i])] + [finished(i, lengths[i])]
        for i in range(count)
    ]
    order = data.draw(st.permutations([i for i in range(count) for _ in queues[i]]))
    events: list[Event] = [queues[i].pop(0) for i in order]
    asked = {
        "num_return_sequences": count,
        "return_log_probs": True,
        "top_log_probs": alternatives,
        "stop_words": words,
        "include_stop_str_in_output": keep,
        "temperature": 1.0,
    }
    streamed, stream_reply = open_session(tokenizer, stream=True, **asked)
    whole, whole_reply = open_session(tokenizer, **asked)
    deliver(streamed, events, cuts)
    deliver(whole, events, [])
    assert (len(whole_reply.sent), whole_reply.finals, stream_reply.finals) == (1, 1, 1)
    said = collected(stream_reply, count)
    assert said == collected(whole_reply, count)
    for index, one in enumerate(said):
        full = b"".join(tokenizer.token_bytes[i] for i in ids[index]).decode("utf-8", "replace")
        assert full.startswith(one.text)
        assert one.ids == ids[index][: len(one.ids)]
        assert one.log_probs == [log_prob_of(index, p) for p in range(len(one.ids))]
        tops = [top_of(index, p, alternatives) for p in range(len(one.ids))]
        assert [tuple((entry["id"], entry["log_prob"]) for entry in top) for top in one.tops] == tops
        assert one.count == len(one.ids)
        assert one.reason == ("stop" if any(word in full for word in words) else "length")
        if one.reason == "length":
            assert (one.text, one.ids) == (full, ids[index])
    for outputs in stream_reply.sent[:-1]:
        assert "seed_used" not in outputs
        assert ("sequence_index" in outputs) == (count > 1 or "finish_reason" in outputs)
