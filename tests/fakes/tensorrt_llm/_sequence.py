"""One sequence being decoded."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tensorrt_llm._model import Logprob, ToyModel, choose, log_softmax, top

__all__ = ["Decoding"]


class Decoding:
    """``first``: its first token is the likeliest but that many, as a beam's."""

    def __init__(
        self, model: ToyModel, prompt: Sequence[int], params: Any, adapter: str, matcher: Any, first: int = 0
    ) -> None:
        self._model = model
        self._prompt = prompt
        self._params = params
        self._adapter = adapter
        self._matcher = matcher
        self._first = first
        self.ids: list[int] = []
        self._logprobs: list[dict[int, Logprob]] = []
        self._sum = 0.0
        self.finish_reason: str | None = None
        self.stop_reason: int | None = None

    def step(self) -> None:
        """Decode one token, and see whether it is the last. An end id is not shown, nor is a stop token."""
        logits = self._model.logits(self._prompt, self.ids, self._adapter)
        if self._first and not self.ids:
            token = top(logits, self._first + 1)[-1]
        else:
            allowed = logits if self._matcher is None else self._matcher.only_allowed(logits)
            token = choose(allowed, self._params, self._prompt, self.ids)
        log_probs = log_softmax(logits)
        self._sum += float(log_probs[token])
        if self._params.logprobs is not None:
            ids = dict.fromkeys([*top(log_probs, self._params.logprobs), token])
            ranks = {i: int((log_probs > log_probs[i]).sum()) + 1 for i in ids}
            self._logprobs.append({i: Logprob(float(log_probs[i]), ranks[i]) for i in ids})
        if self._matcher is not None:
            self._matcher.accept(token)
        self.ids.append(token)
        self._look_for_the_end(token)

    def _look_for_the_end(self, token: int) -> None:
        params = self._params
        if token == params.end_id and not params.ignore_eos:
            self.finish_reason = "stop"
        elif token in (params.stop_token_ids or ()):
            self.finish_reason, self.stop_reason = "stop", token
        elif len(self.ids) >= params.max_tokens:
            self.finish_reason = "length"
        if self.finish_reason == "stop":
            self.ids.pop()
            del self._logprobs[len(self.ids) :]

    def snapshot(self, prompt_logprobs: list[dict[int, Logprob]]) -> Any:
        """What the caller is told: everything so far."""
        return SimpleNamespace(
            token_ids=list(self.ids),
            logprobs=list(self._logprobs),
            prompt_logprobs=prompt_logprobs,
            cumulative_logprob=self._sum,
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
        )
