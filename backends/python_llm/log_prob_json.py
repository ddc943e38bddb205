"""Log-probs with their alternatives as JSON, in our shape and in vLLM's."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from python_llm.engine import TopLogProbs
from python_llm.response_facts import Part, RequestFacts
from python_llm.token_bytes import TokenBytes

__all__ = ["alternatives", "as_vllm", "prompt_alternatives", "prompt_tokens"]

_NEVER = -9999.0  # JSON has no infinity


def alternatives(part: Part) -> str:
    return _alternatives(part.top_log_probs, part.token_bytes)


def prompt_alternatives(facts: RequestFacts) -> list[str]:
    """None where the engine told none."""
    return [_alternatives(facts.prompt.top_log_probs, facts.token_bytes)] if facts.prompt else []


def prompt_tokens(facts: RequestFacts) -> list[str]:
    """None where the engine told nothing of the prompt."""
    if facts.prompt is None:
        return []
    told = [{"id": i, **_text_of(facts.token_bytes[i])} for i in facts.request.prompt_ids]
    return [json.dumps(told, ensure_ascii=False)]


def as_vllm(part: Part) -> str:
    """``[{token id: {logprob, rank, decoded_token}}, …]``: the generated token, then its alternatives."""
    tops: Sequence[TopLogProbs] = part.top_log_probs or ((),) * len(part.log_probs)
    told = zip(part.delta.ids, part.log_probs, tops, strict=True)
    return json.dumps([_vllm_entry(i, log_prob, top, part.token_bytes) for i, log_prob, top in told])


def _alternatives(tops: Sequence[TopLogProbs], token_bytes: TokenBytes) -> str:
    return json.dumps([[_entry(i, log_prob, token_bytes) for i, log_prob in top] for top in tops], ensure_ascii=False)


def _entry(token_id: int, log_prob: float, token_bytes: TokenBytes) -> dict[str, Any]:
    return {"id": token_id, "log_prob": _finite(log_prob), **_text_of(token_bytes[token_id])}


def _vllm_entry(token_id: int, log_prob: float, top: TopLogProbs, token_bytes: TokenBytes) -> dict[str, Any]:
    ranks = {alternative: rank for rank, (alternative, _) in enumerate(top, start=1)}
    return {
        str(i): {
            "logprob": _finite(value),
            "rank": ranks.get(i),
            **_text_of(token_bytes[i], name="decoded_token"),
        }
        for i, value in {token_id: log_prob, **dict(top)}.items()
    }


def _text_of(raw: bytes, *, name: str = "text") -> dict[str, Any]:
    text = raw.decode("utf-8", "replace")
    return {name: text} if text.encode() == raw else {name: text, "bytes": list(raw)}


def _finite(log_prob: float) -> float:
    return log_prob if math.isfinite(log_prob) else _NEVER
