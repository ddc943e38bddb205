"""Log-probs of an answer in OpenAI's two shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from triton_llm_client.log_probs import TokenText, TopLogProbs
from triton_llm_client.results import Choice

__all__ = ["PromptTold", "chat_log_probs", "completion_log_probs"]


@dataclass(frozen=True, slots=True)
class PromptTold:
    """What an answer that begins with its prompt says of the prompt's ``tokens``; of all but the first ``log_probs``,
    and ``tops`` where alternatives were asked for."""

    tokens: tuple[TokenText, ...] = ()
    log_probs: tuple[float, ...] = ()
    tops: tuple[TopLogProbs, ...] = ()


_NO_PROMPT = PromptTold()


def chat_log_probs(choice: Choice) -> dict[str, Any] | None:
    """None where none were asked for."""
    if not choice.tokens and not choice.log_probs:
        return None
    told = zip(choice.tokens, choice.log_probs, _tops(choice), strict=True)
    return {"content": [_content(*one) for one in told], "refusal": None}


def completion_log_probs(choice: Choice, *, begin: int = 0, prompt: PromptTold = _NO_PROMPT) -> dict[str, Any] | None:
    """``text_offset`` counts characters of the text from ``begin``: where the token's first character begins, which
    of a token that is a part of a character is the character's. Such a token stands there as OpenAI writes it,
    ``bytes:\\xe2\\x80``. Of the prompt's first token there is no log-prob.
    """
    tokens = (*prompt.tokens, *choice.tokens)
    log_probs = [*([None] if prompt.tokens else ()), *prompt.log_probs, *choice.log_probs]
    if not tokens and not log_probs:
        return None
    tops = [*([()] if prompt.tokens else ()), *(prompt.tops or ((),) * len(prompt.log_probs)), *_tops(choice)]
    return {
        "tokens": [_name(token) for token in tokens],
        "token_logprobs": log_probs,
        "top_logprobs": [_by_name(*one) for one in zip(tokens, log_probs, tops, strict=True)] if any(tops) else None,
        "text_offset": list(_offsets(tokens, begin)),
    }


def _tops(choice: Choice) -> Sequence[TopLogProbs]:
    return choice.top_log_probs or ((),) * len(choice.output_ids)


def _content(token: TokenText, log_prob: float, top: TopLogProbs) -> dict[str, Any]:
    alternatives = [_entry(one.text, one.log_prob, one.raw) for one in top]
    return {**_entry(token.text, log_prob, token.raw), "top_logprobs": alternatives}


def _entry(text: str, log_prob: float, raw: bytes) -> dict[str, Any]:
    return {"token": text, "logprob": log_prob, "bytes": list(raw)}


def _by_name(token: TokenText, log_prob: float | None, top: TopLogProbs) -> dict[str, float] | None:
    """The alternatives, and the token itself, whose own number holds: of two ways to it the last digits differ."""
    if log_prob is None:
        return None
    others = {_name(one): one.log_prob for one in top if one.id != token.id}
    return dict(sorted({**others, _name(token): log_prob}.items(), key=lambda one: -one[1]))


def _name(token: Any) -> str:
    """Of a TokenText or an Alternative."""
    if token.text.encode() == token.raw:
        return str(token.text)
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.raw)


def _offsets(tokens: Sequence[TokenText], begin: int) -> Iterator[int]:
    """A character begins at every byte that does not continue one."""
    at = begin
    for raw in (token.raw for token in tokens):
        continues = raw[:1] and 0x80 <= raw[0] < 0xC0
        yield at - 1 if continues and at > begin else at
        at += sum(not 0x80 <= byte < 0xC0 for byte in raw)
