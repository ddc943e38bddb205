"""A session opened as admission opens it, and the engine's events for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hand_engine import ABLE, log_prob_of, top_of
from keeping_reply import KeepingReply
from python_llm.admission import Admission
from python_llm.engine import EngineLimits, Finished, Tokens, Usage
from python_llm.session import Session
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer

__all__ = ["PROMPT", "finished", "open_session", "tokens"]

LIMITS = EngineLimits(max_sequence_len=256, vocab_size=512, max_running=8, cache_tokens=1000)
PROMPT = [339, 278, 262]


def open_session(tokenizer: Tokenizer, **values: Any) -> tuple[Session, KeepingReply]:
    admission = Admission(tokenizer, LIMITS, ABLE, ServingConfig(), ())
    reply = KeepingReply()
    admitted = admission.admit({"input_ids": PROMPT, "max_tokens": 100, **values}, "x#1")
    return Session("x", admitted, reply, tokenizer.token_bytes, arrival=1.5), reply


def tokens(index: int, begin: int, ids: Sequence[int], alternatives: int = 0) -> Tokens:
    positions = range(begin, begin + len(ids))
    tops = tuple(top_of(index, p, alternatives) for p in positions) if alternatives else ()
    return Tokens(index, tuple(ids), tuple(log_prob_of(index, p) for p in positions), tops)


def finished(index: int, count: int, stop_id: int | None = None, **usage: int) -> Finished:
    return Finished(index, "stop" if stop_id is not None else "length", Usage(len(PROMPT), count, **usage), stop_id)
