"""A request's life as lines of text, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

__all__ = ["trace_text"]

_Moment = tuple[float, str]


def trace_text(record: Mapping[str, Any]) -> str:
    """``record``: `python_llm.trace.Trace.to_record`, with the model and version that told it."""
    began = datetime.fromtimestamp(record["began"], timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    head = f"{record['request_id']}  {record['model']}:{record['version']}  arrived {began} UTC"
    lines = [f"  {at:9.3f} s  {what}" for at, what in sorted(_moments(record), key=lambda moment: moment[0])]
    if record["spans_dropped"]:
        lines.append(f"  {record['spans_dropped']} more chunks and preemptions were not kept")
    if record["ended"] is None:
        lines.append("  it runs or waits still")
    return "\n".join([head, *lines])


def _moments(record: Mapping[str, Any]) -> Iterator[_Moment]:
    if record["queued"] is not None:
        yield record["queued"], f"admitted, {record['prompt_tokens']} prompt tokens; in the queue"
    for span in record["spans"]:
        if span["what"] == "prefill":
            yield span["at"], f"prefill of {span['tokens']} tokens in {span['seconds']:.3f} s"
        else:
            yield span["at"], f"preempted: its blocks of {span['tokens']} tokens went to others; in the queue"
    for number, sequence in enumerate(record["sequences"]):
        yield from _sequence(f"sequence {number}: " if len(record["sequences"]) > 1 else "", sequence)
    if record["responses"]:
        yield record["first_sent"], "first response sent"
        yield record["last_sent"], f"last of {record['responses']} responses sent"
    if record["ended"] is not None:
        yield record["ended"], f"ended: {record['error'] or record['reason']}"


def _sequence(who: str, told: Mapping[str, Any]) -> Iterator[_Moment]:
    if told["first_scheduled"] is not None:
        cached = told["cached_prompt_tokens"]
        yield (
            told["first_scheduled"],
            f"{who}first step{f'; {cached} prompt tokens were in the cache' if cached else ''}",
        )
    if told["first_token"] is not None:
        yield told["first_token"], f"{who}first token"
    if told["last_token"] is not None:
        steps = max(told["output_tokens"] - 1, 1)
        mean = (told["last_token"] - told["first_token"]) / steps
        kept = f", {told['drafts_accepted']} guessed" if told["drafts_accepted"] else ""
        yield (
            told["last_token"],
            f"{who}last of {told['output_tokens']} tokens{kept}; {mean * 1e3:.1f} ms between two, "
            f"{told['slowest_gap'] * 1e3:.1f} at most",
        )
