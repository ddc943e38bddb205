"""An answer in TGI's shape: tokens one by one, and details at the end."""

from __future__ import annotations

import codecs
from typing import Any

from openai_gateway.finish import finish_of
from triton_llm_client import Chunk
from triton_llm_client.log_probs import TokenText, TopLogProbs

__all__ = ["TgiAnswer"]


class TgiAnswer:
    """Tokens that are parts of a character have the text of the character at its last: their texts add up."""

    def __init__(self, stop: tuple[str, ...], *, with_tops: bool) -> None:
        self._stop = stop
        self._with_tops = with_tops
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._texts: list[str] = []
        self._tokens: list[dict[str, Any]] = []
        self._tops: list[list[dict[str, Any]]] = []
        self._prefill: list[dict[str, Any]] = []
        self._end = Chunk("")

    def take(self, chunk: Chunk) -> list[dict[str, Any]]:
        """The events of a stream."""
        self._texts.append(chunk.text)
        begin = len(self._tokens)
        tops: tuple[TopLogProbs, ...] = chunk.top_log_probs or ((),) * len(chunk.tokens)
        for token, log_prob, top in zip(chunk.tokens, chunk.log_probs, tops, strict=True):
            self._tokens.append(_token(token, log_prob, self._utf8.decode(token.raw)))
            self._tops.append([_token(TokenText(one.id, one.text, one.raw), one.log_prob, one.text) for one in top])
        if chunk.prompt_tokens:
            log_probs = (None, *chunk.prompt_log_probs)
            self._prefill = [
                {"id": token.id, "text": token.text, "logprob": log_prob}
                for token, log_prob in zip(chunk.prompt_tokens, log_probs, strict=True)
            ]
        told = [self._event(at) for at in range(begin, len(self._tokens))]
        if finish_of(chunk.finish_reason) is None:
            return told
        self._end = chunk
        return self._last(told)

    def whole(self, *, with_details: bool) -> dict[str, Any]:
        text = "".join(self._texts)
        if not with_details:
            return {"generated_text": text}
        tops = {"top_tokens": self._tops} if self._with_tops else {}
        details = {**self._details(), "prefill": self._prefill, "tokens": self._tokens, **tops}
        return {"generated_text": text, "details": details}

    def _event(self, at: int) -> dict[str, Any]:
        tops = {"top_tokens": self._tops[at]} if self._with_tops else {}
        return {"index": at + 1, "token": self._tokens[at], **tops, "generated_text": None, "details": None}

    def _last(self, told: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The end stands with the last token; a stream that ends without a new one has an empty token for it."""
        if not told:
            nothing = {"id": 0, "text": "", "logprob": 0.0, "special": True}
            told = [{"index": len(self._tokens) + 1, "token": nothing}]
        input_length = self._end.input_tokens or 0
        details = {**self._details(), "input_length": input_length}
        return [*told[:-1], {**told[-1], "generated_text": "".join(self._texts), "details": details}]

    def _details(self) -> dict[str, Any]:
        end = self._end
        generated = len(self._tokens) if end.output_tokens is None else end.output_tokens
        return {"finish_reason": self._finish(), "generated_tokens": generated, "seed": end.seed}

    def _finish(self) -> str:
        if finish_of(self._end.finish_reason) == "length":
            return "length"
        return "stop_sequence" if self._end.stop_reason in self._stop else "eos_token"


def _token(token: TokenText, log_prob: float, text: str) -> dict[str, Any]:
    return {"id": token.id, "text": text, "logprob": log_prob, "special": not token.raw}
