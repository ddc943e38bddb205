"""What each output of a response holds: one row an output, and when it is sent.

A response of a stream that carries just text has two tensors, for each costs time in three processes; the rest is
said at the end, or where the request asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from python_llm import log_prob_json
from python_llm.contract import ENSEMBLE
from python_llm.response_facts import Part, RequestFacts

__all__ = ["CHUNK", "OUTPUTS", "UNASKED_OUTPUTS", "Output", "OutputWriter", "chosen_outputs"]

# each: every response that carries tokens; first: the request's first response; end: a sequence's last response;
# index: each one of several sequences, else end; last: the request's last response.
When = Literal["each", "first", "end", "index", "last"]


@dataclass(frozen=True, slots=True)
class Output:
    """``flag`` is the input that asks for it; without it ``default`` holds. One of the two extractors is there."""

    name: str
    when: When
    of_part: Callable[[Part], Any] | None = None
    of_request: Callable[[RequestFacts], Any] | None = None
    flag: str = ""
    default: bool = True
    flat: bool = False  # the parts' lists one after the other, rather than a value for each part
    nested: bool = False  # a list for each part

    def value(self, facts: RequestFacts, parts: Sequence[Part]) -> Any:
        if self.of_request is not None:
            return self.of_request(facts)
        assert self.of_part is not None
        if len(parts) == 1 and not self.nested:
            return self.of_part(parts[0])
        values = [self.of_part(part) for part in parts]
        return [item for value in values for item in value] if self.flat else values


def _asked(flag: str, name: str, when: When, **extract: Any) -> Output:
    return Output(name, when, flag=flag, default=False, **extract)


def _metric(name: str, extract: Callable[[RequestFacts], Any]) -> Output:
    return _asked("return_perf_metrics", name, "last", of_request=extract)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


OUTPUTS = (
    Output("text_output", "each", of_part=lambda part: part.delta.text),
    Output("output_ids", "each", of_part=lambda part: part.delta.ids, flat=True),
    Output("sequence_index", "index", of_part=lambda part: part.index),
    Output("finish_reason", "end", of_part=lambda part: part.reason, flag="return_finish_reason"),
    _asked("return_stop_reason", "stop_reason", "end", of_part=lambda part: part.stop_reason),
    _asked("return_log_probs", "cum_log_probs", "each", of_part=lambda part: part.log_prob_sum),
    _asked("return_log_probs", "output_log_probs", "each", of_part=lambda part: part.log_probs, nested=True),
    _asked("return_log_probs", "output_top_log_probs", "each", of_part=log_prob_json.alternatives),
    _asked("return_prompt_log_probs", "prompt_log_probs", "first", of_request=lambda facts: facts.prompt_log_probs),
    _asked("return_prompt_log_probs", "prompt_top_log_probs", "first", of_request=log_prob_json.prompt_alternatives),
    _asked("return_prompt_log_probs", "prompt_tokens", "first", of_request=log_prob_json.prompt_tokens),
    _asked("return_logprobs", "logprobs", "each", of_part=log_prob_json.as_vllm),
    _asked("return_cumulative_logprob", "cumulative_logprob", "each", of_part=lambda part: part.log_prob_sum),
    Output("num_input_tokens", "last", of_request=lambda facts: facts.input_tokens, flag="return_num_input_tokens"),
    Output("num_output_tokens", "end", of_part=lambda part: part.output_tokens, flag="return_num_output_tokens"),
    Output("seed_used", "last", of_request=lambda facts: facts.seed),
    _metric("arrival_time_ns", lambda facts: facts.arrival_ns),
    _metric("first_scheduled_time_ns", lambda facts: facts.first_scheduled_ns),
    _metric("first_token_time_ns", lambda facts: facts.first_token_ns),
    _metric("last_token_time_ns", lambda facts: facts.last_token_ns),
    _metric("kv_cache_reused_blocks", lambda facts: facts.blocks_reused),
    _metric("kv_cache_alloc_new_blocks", lambda facts: facts.blocks_allocated),
    _metric("kv_cache_alloc_total_blocks", lambda facts: facts.blocks_reused + facts.blocks_allocated),
    _metric("kv_cache_reused_block", lambda facts: facts.blocks_reused),
    _metric("kv_cache_missed_block", lambda facts: facts.blocks_allocated),
    _metric("kv_cache_hit_rate", lambda f: _ratio(f.blocks_reused, f.blocks_reused + f.blocks_allocated)),
    _metric("total_draft_tokens", lambda facts: facts.drafts_proposed),
    _metric("total_accepted_draft_tokens", lambda facts: facts.drafts_accepted),
    _metric("acceptance_rate", lambda facts: _ratio(facts.drafts_accepted, facts.drafts_proposed)),
    _metric("batch_index", lambda facts: 0),
)
# In place of text_output, where the detokenizer writes the text.
CHUNK = (
    Output("chunk_ids", "each", of_part=lambda part: (*part.delta.context, *part.delta.ids), flat=True),
    Output("text_span", "each", of_part=lambda part: part.span, flat=True),
)
# What an ensemble's response says although it is not the last: its clients read them from any.
_TOLD_EARLY = frozenset({"sequence_index", "finish_reason", "num_input_tokens", "num_output_tokens", "seed_used"})
_WITH_ALTERNATIVES = frozenset({"output_top_log_probs", "prompt_top_log_probs"})


def chosen_outputs(values: Mapping[str, Any]) -> frozenset[str]:
    """The names of the outputs that a request asks for."""
    names = {row.name for row in OUTPUTS if not row.flag or values.get(row.flag, row.default)}
    return frozenset(names if values.get("top_log_probs") else names - _WITH_ALTERNATIVES)


UNASKED_OUTPUTS = chosen_outputs({})


class OutputWriter:
    """Writes one request's responses: name -> value, or a list of values."""

    def __init__(self, chosen: frozenset[str], *, several: bool, in_ensemble: bool) -> None:
        end = {"end"} if several else {"end", "index"}
        each = {"each", "index"} if several else {"each"}
        table = [row for row in OUTPUTS if row.name in chosen]
        self._blank: dict[str, Any] = {}
        if in_ensemble:  # every output must be there: one that a step does not send makes the response vanish
            self._blank = {row.name: () for row in ENSEMBLE.outputs if row.name != "text_output"}
            table = [row for row in table if row.name in self._blank]
            told = [row for row in table if row.name in _TOLD_EARLY]
            table = [*CHUNK, *(row for row in table if row.name not in _TOLD_EARLY)]
        else:
            told = []
        self._each = [*told, *(row for row in table if row.when in each)]
        self._first = [row for row in table if row.when == "first"]
        self._end = [row for row in table if row.when in end]
        self._last = [row for row in table if row.when == "last"]

    def write(self, facts: RequestFacts, parts: Sequence[Part], *, first: bool, last: bool) -> dict[str, Any]:
        rows = list(self._each)
        rows += self._first if first else ()
        rows += self._end if parts[0].ended else ()
        rows += self._last if last else ()
        return {**self._blank, **{row.name: row.value(facts, parts) for row in rows}}
