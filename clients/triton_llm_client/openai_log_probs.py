"""Log-probs of an answer in OpenAI's two shapes."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from triton_llm_client.log_probs import Alternative, TopLogProbs
from triton_llm_client.results import Choice

__all__ = ["chat_log_probs", "completion_log_probs"]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def chat_log_probs(choice: Choice) -> dict[str, Any] | None:
    """None where none were asked for."""
    if not choice.token_texts and not choice.log_probs:
        return None
    told = zip(choice.output_ids, choice.token_texts, choice.log_probs, _tops(choice), strict=True)
    return {"content": [_content(*one) for one in told], "refusal": None}


def completion_log_probs(choice: Choice) -> dict[str, Any] | None:
    """``text_offset`` counts characters of the answer; of tokens that are parts of characters it is not exact."""
    if not choice.token_texts and not choice.log_probs:
        return None
    lengths = [len(text) for text in choice.token_texts]
    return {
        "tokens": list(choice.token_texts),
        "token_logprobs": list(choice.log_probs),
        "top_logprobs": [{one.text: one.log_prob for one in top} for top in _tops(choice)] or None,
        "text_offset": [*accumulate(lengths[:-1], initial=0)] if lengths else [],
    }


def _tops(choice: Choice) -> tuple[TopLogProbs, ...]:
    return choice.top_log_probs or ((),) * len(choice.output_ids)


def _content(token_id: int, text: str, log_prob: float, top: TopLogProbs) -> dict[str, Any]:
    own = next((one for one in top if one.id == token_id), None)
    # Of a token that is no alternative only the text is known; a part of a character has no bytes then.
    raw = own.raw if own else None if _REPLACEMENT in text else text.encode()
    return {**_entry(text, log_prob, raw), "top_logprobs": [_alternative(one) for one in top]}


def _alternative(one: Alternative) -> dict[str, Any]:
    return _entry(one.text, one.log_prob, one.raw)


def _entry(text: str, log_prob: float, raw: bytes | None) -> dict[str, Any]:
    return {"token": text, "logprob": log_prob, "bytes": None if raw is None else list(raw)}
