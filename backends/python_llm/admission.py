"""Admission: everything that can be refused is refused here, by name, before the engine sees the request."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from python_llm.engine import Capabilities, EngineLimits, GenerateRequest, SamplingParams
from python_llm.errors import InvalidRequest, Unsupported
from python_llm.prompt import PromptReader
from python_llm.settings import ServingConfig
from python_llm.stop_words import StopWords
from python_llm.tokenizer import Tokenizer

__all__ = ["Admission", "Admitted"]

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")
_MAX_STOP_WORDS = 1024
_MAX_STOP_WORD_LENGTH = 4096


@dataclass(frozen=True)
class Admitted:
    """A request the engine may run, and what the generator needs around it. ``timeout`` in seconds, 0: none."""

    request: GenerateRequest
    stop_words: StopWords
    stream: bool
    timeout: float
    every_output: bool = False


class Admission:
    """Turns input values into an Admitted request, or raises InvalidRequest or Unsupported."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        limits: EngineLimits,
        capabilities: Capabilities,
        serving: ServingConfig,
        end_ids: Sequence[int],
    ) -> None:
        self._prompts = PromptReader(tokenizer, vocab_size=limits.vocab_size, max_tokens=limits.max_request_tokens)
        self._limits = limits
        self._capabilities = capabilities
        self._serving = serving
        self._end_ids = frozenset(i for i in end_ids if i < limits.vocab_size)  # others never come

    def admit(self, values: Mapping[str, Any], request_id: str) -> Admitted:
        self._refuse_what_the_engine_lacks(values)
        prompt = self._prompts.read(values)
        resumed = self._prompts.check_ids(values.get("resume_ids", []), "resume_ids")
        max_tokens = self._max_tokens(values, len(prompt), len(resumed))
        request = GenerateRequest(
            request_id=request_id,
            prompt_ids=tuple(prompt),
            resume_ids=tuple(resumed),
            max_tokens=max_tokens,
            min_tokens=_bounded(values, "min_tokens", 0, max_tokens, default=0),
            sampling=_sampling(values),
            end_ids=frozenset() if values.get("ignore_eos") else self._end_ids,
            priority=values.get("priority", 0),
        )
        timeout = values["timeout"] / 1e6 if "timeout" in values else self._serving.default_timeout_seconds
        return Admitted(
            request,
            _stop_words(values),
            stream=bool(values.get("stream", False)),
            timeout=timeout,
            every_output=bool(values.get("every_output", False)),
        )

    def _refuse_what_the_engine_lacks(self, values: Mapping[str, Any]) -> None:
        lacking = [name for name in _SAMPLING if name in values and name not in self._capabilities.sampling]
        if values.get("resume_ids") and not self._capabilities.resume:
            lacking.append("resume_ids")
        if values.get("priority") and not self._capabilities.priorities:
            lacking.append("priority")
        if lacking:
            raise Unsupported("not_supported", f"{', '.join(lacking)}: this engine has no such ability; leave it out.")

    def _max_tokens(self, values: Mapping[str, Any], prompt: int, resumed: int) -> int:
        room = self._limits.max_request_tokens - prompt
        if room < 1 or room <= resumed:
            raise self._prompts.too_long(str(prompt + resumed))
        if "max_tokens" not in values:
            return max(resumed + 1, min(self._serving.default_max_tokens, room))
        wanted = int(values["max_tokens"])
        if wanted < 1:
            raise InvalidRequest("max_tokens_too_small", f"max_tokens {wanted}: it must be at least 1.")
        if wanted > room:
            raise InvalidRequest(
                "max_tokens_too_large",
                f"max_tokens {wanted}: with {prompt} prompt tokens at most {room} fit into "
                f"{self._limits.max_request_tokens}; ask for fewer tokens or shorten the prompt.",
            )
        if resumed >= wanted:
            raise InvalidRequest(
                "nothing_to_resume",
                f"resume_ids: {resumed} tokens, max_tokens {wanted}; resumed tokens must be fewer than max_tokens.",
            )
        return wanted


def _sampling(values: Mapping[str, Any]) -> SamplingParams:
    chosen = any(name in values for name in ("top_k", "top_p", "min_p"))
    return SamplingParams(
        temperature=_real(values, "temperature", 0.0, 100.0, default=1.0 if chosen else 0.0),
        top_k=_bounded(values, "top_k", 0, 2**31 - 1, default=0),
        top_p=_real(values, "top_p", 0.0, 1.0, default=1.0),
        min_p=_real(values, "min_p", 0.0, 1.0, default=0.0),
        seed=int(values.get("seed", secrets.randbits(63))),
    )


def _real(values: Mapping[str, Any], name: str, low: float, high: float, *, default: float) -> float:
    value = float(values.get(name, default))
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidRequest(f"{name}_out_of_range", f"{name} {value:g}: it must be from {low:g} to {high:g}.")
    return value


def _bounded(values: Mapping[str, Any], name: str, low: int, high: int, *, default: int) -> int:
    value = int(values.get(name, default))
    if not low <= value <= high:
        raise InvalidRequest(f"{name}_out_of_range", f"{name} {value}: it must be from {low} to {high}.")
    return value


def _stop_words(values: Mapping[str, Any]) -> StopWords:
    words = [word for word in values.get("stop_words", []) if word]
    if len(words) > _MAX_STOP_WORDS:
        raise InvalidRequest("too_many_stop_words", f"stop_words: {len(words)} words; at most {_MAX_STOP_WORDS}.")
    longest = max(map(len, words), default=0)
    if longest > _MAX_STOP_WORD_LENGTH:
        raise InvalidRequest(
            "stop_word_too_long", f"stop_words: a word of {longest} characters; at most {_MAX_STOP_WORD_LENGTH}."
        )
    return StopWords(words)
