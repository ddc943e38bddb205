"""A completion as plain JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from triton_llm_client.log_probs import Alternative, TopLogProbs
from triton_llm_client.results import Choice, Completion

__all__ = ["choice_json", "completion_json"]


def completion_json(completion: Completion) -> dict[str, Any]:
    """Everything; text, ids and finish reason of the first choice stand at the top as well."""
    return {
        "text": completion.text,
        "output_ids": completion.output_ids,
        "finish_reason": completion.finish_reason,
        "input_tokens": completion.input_tokens,
        "output_tokens": completion.output_tokens,
        "seed": completion.seed,
        "choices": [choice_json(choice) for choice in completion.choices],
        "prompt_log_probs": completion.prompt_log_probs,
        "prompt_top_log_probs": _tops(completion.prompt_top_log_probs),
        "metrics": None if completion.metrics is None else asdict(completion.metrics),
        "ttft_seconds": completion.ttft_seconds,
        "total_seconds": completion.total_seconds,
        "request_id": completion.request_id,
    }


def choice_json(choice: Choice) -> dict[str, Any]:
    return {
        "index": choice.index,
        "text": choice.text,
        "output_ids": choice.output_ids,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "output_tokens": choice.output_tokens,
        "log_prob_sum": choice.log_prob_sum,
        "log_probs": choice.log_probs,
        "top_log_probs": _tops(choice.top_log_probs),
    }


def _tops(tops: tuple[TopLogProbs, ...]) -> list[list[dict[str, Any]]]:
    return [[_alternative(one) for one in top] for top in tops]


def _alternative(one: Alternative) -> dict[str, Any]:
    return {"id": one.id, "text": one.text, "log_prob": one.log_prob, "bytes": list(one.raw)}
