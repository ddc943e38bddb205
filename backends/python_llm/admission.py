"""Admission: everything that can be refused is refused here, by name, before the engine sees the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from python_llm.admission_abilities import refuse_what_the_engine_lacks
from python_llm.admission_adapter import read_adapter
from python_llm.admission_bounds import whole_up_to
from python_llm.admission_guide import read_guide
from python_llm.admission_sampling import read_sampling
from python_llm.admission_sequences import Sequences, read_sequences
from python_llm.admission_stops import read_end_ids, read_stop_ids, read_stop_words
from python_llm.bounds import short_text, whole
from python_llm.engine import Capabilities, EngineLimits, GenerateRequest
from python_llm.errors import InvalidRequest
from python_llm.memory_bound import MemoryBound
from python_llm.outputs import UNASKED_OUTPUTS, chosen_outputs
from python_llm.prompt import PromptReader
from python_llm.settings import ServingConfig
from python_llm.stop_words import StopWords
from python_llm.tokenizer import Tokenizer

__all__ = ["Admission", "Admitted"]

_LONGEST_NAME = 256  # characters of tenant and cache_salt
_MOST_ALTERNATIVES = 20
_INT32 = 2**31
_LOG_PROBS = ("return_log_probs", "return_logprobs", "return_cumulative_logprob")


@dataclass(frozen=True)
class Admitted:
    """A request the engine may run, and what the generator needs around it. ``timeout`` in seconds, 0: none.

    ``outputs`` are the names of those to send; ``echo``: the text begins with the prompt's.
    """

    request: GenerateRequest
    stop_words: StopWords
    stream: bool
    timeout: float
    every_output: bool = False
    outputs: frozenset[str] = UNASKED_OUTPUTS
    echo: bool = False
    keep_stop_word: bool = False
    wants_usage: bool = False


class Admission:
    """Turns input values into an Admitted request, or raises InvalidRequest, Unsupported, or Unavailable (memory)."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        limits: EngineLimits,
        capabilities: Capabilities,
        serving: ServingConfig,
        end_ids: Sequence[int],
    ) -> None:
        self._tokenizer = tokenizer
        self._prompts = PromptReader(tokenizer, vocab_size=limits.vocab_size, max_tokens=limits.max_request_tokens)
        self._limits = limits
        self._capabilities = capabilities
        self._serving = serving
        self.memory = MemoryBound(serving.memory_bytes)
        self._end_ids = frozenset(i for i in end_ids if i < limits.vocab_size)  # others never come

    def admit(self, values: Mapping[str, Any], request_id: str) -> Admitted:
        self.memory.check()
        refuse_what_the_engine_lacks(values, self._capabilities)
        request = self._request(values, request_id)
        excludes = values.get("exclude_input_in_output", self._serving.exclude_input_in_output)
        return Admitted(
            request,
            read_stop_words(values),
            stream=bool(values.get("stream", False)),
            timeout=self._timeout(values),
            every_output=bool(values.get("every_output", False)),
            outputs=chosen_outputs(values),
            echo=not excludes,
            keep_stop_word=bool(values.get("include_stop_str_in_output", False)),
            wants_usage=bool(values.get("return_perf_metrics", False)),
        )

    def _timeout(self, values: Mapping[str, Any]) -> float:
        if "timeout" not in values:
            return self._serving.default_timeout_seconds
        return whole(values, "timeout", 0, 2**64 - 1, default=0) / 1e6

    def _request(self, values: Mapping[str, Any], request_id: str) -> GenerateRequest:
        sequences = read_sequences(values, self._capabilities, self._limits)
        guide = read_guide(values, self._capabilities)
        adapter = read_adapter(values, self._capabilities)
        top = _alternatives(values)
        prompt = self._prompts.read(values)
        resumed = self._prompts.check_ids(values.get("resume_ids", []), "resume_ids")
        max_tokens = self._max_tokens(values, len(prompt), len(resumed))
        self._check_room(sequences, len(prompt), max_tokens)
        vocab_size = self._limits.vocab_size
        return GenerateRequest(
            request_id=request_id,
            prompt_ids=tuple(prompt),
            resume_ids=tuple(resumed),
            max_tokens=max_tokens,
            min_tokens=whole_up_to(values, "min_tokens", 0, "max_tokens", max_tokens, default=0),
            sampling=read_sampling(values, self._tokenizer, vocab_size),
            end_ids=read_end_ids(values, self._end_ids, vocab_size),
            stop_ids=read_stop_ids(values, vocab_size),
            priority=whole(values, "priority", -_INT32, _INT32 - 1, default=0),
            tenant=short_text(values, "tenant", _LONGEST_NAME),
            sequence_count=sequences.count,
            first_index=sequences.first_index,
            beam=sequences.beam,
            log_probs=any(values.get(name) for name in _LOG_PROBS),
            top_log_probs=top,
            prompt_log_probs=bool(values.get("return_prompt_log_probs", False)),
            guide=guide,
            cache_salt=short_text(values, "cache_salt", _LONGEST_NAME),
            adapter=adapter,
        )

    def _max_tokens(self, values: Mapping[str, Any], prompt: int, resumed: int) -> int:
        room = self._limits.max_request_tokens - prompt
        if room < 1 or room <= resumed:
            raise self._prompts.too_long(str(prompt + resumed))
        if "max_tokens" not in values:
            return max(resumed + 1, min(self._serving.default_max_tokens, room))
        wanted = int(values["max_tokens"])
        fewest = 0 if values.get("return_prompt_log_probs") else 1
        if wanted < fewest:
            remedy = "" if fewest == 0 else "; 0 is for return_prompt_log_probs"
            raise InvalidRequest("max_tokens_too_small", f"max_tokens {wanted}: it must be at least {fewest}{remedy}.")
        if wanted > room:
            raise InvalidRequest(
                "max_tokens_too_large",
                f"max_tokens {wanted}: with {prompt} prompt tokens at most {room} fit into the context of "
                f"{self._limits.max_request_tokens} tokens; ask for fewer tokens or shorten the prompt.",
            )
        if resumed and resumed >= wanted:
            raise InvalidRequest(
                "nothing_to_resume",
                f"resume_ids: {resumed} tokens, max_tokens {wanted}; resumed tokens must be fewer than max_tokens.",
            )
        return wanted

    def _check_room(self, sequences: Sequences, prompt: int, max_tokens: int) -> None:
        """Beams run together or not at all."""
        width = sequences.beam.width if sequences.beam else 1
        if width > 1 and prompt + width * max_tokens > self._limits.cache_tokens:
            raise InvalidRequest(
                "beams_too_large",
                f"beam_width {width}: with {prompt} prompt tokens and max_tokens {max_tokens} the beams take "
                f"{prompt + width * max_tokens} tokens, and the KV cache holds {self._limits.cache_tokens}; ask for "
                "fewer beams or tokens.",
            )


def _alternatives(values: Mapping[str, Any]) -> int:
    top = whole(values, "top_log_probs", 0, _MOST_ALTERNATIVES, default=0)
    if top and not any(values.get(name) for name in (*_LOG_PROBS, "return_prompt_log_probs")):
        raise InvalidRequest(
            "needs_log_probs",
            f"top_log_probs {top}: nothing asks for log-probs; send return_log_probs or return_prompt_log_probs too.",
        )
    return top
