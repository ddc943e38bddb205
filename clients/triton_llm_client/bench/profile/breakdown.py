"""The parts of a token's time and of a request's, which add up to what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from triton_llm_client.bench.load import Outcome
from triton_llm_client.bench.profile.served_times import Times

__all__ = ["Breakdown", "breakdown"]

BESIDE = "slower beside detokenising, sending, network and client"
LAG = "the last token's way longer than the first's"
OTHER = "the rest of the engine: telling, bookkeeping, waiting"


@dataclass(frozen=True)
class Breakdown:
    """``token``: part -> seconds a token after the first, adding up to ``token_seconds``, measured at the client.

    ``request``: part -> seconds of a request, adding up to ``request_seconds``, from sent to the last token seen.
    Means over the requests; a part may be below zero where two runs differ by noise.
    """

    in_flight: int
    token: Mapping[str, float]
    token_seconds: float
    request: Mapping[str, float]
    request_seconds: float

    def lines(self) -> Iterator[str]:
        yield f"{self.in_flight} in flight: a token after the first"
        yield from _lines(self.token, self.token_seconds, "measured between tokens at the client")
        yield f"{self.in_flight} in flight: a request"
        yield from _lines(self.request, self.request_seconds, "measured from sent to the last token at the client")


def breakdown(in_flight: int, alone: Outcome, parts: Mapping[str, float], served: Sequence[Times]) -> Breakdown:
    """``alone``: the engine in process on the same load, and the seconds of its parts meanwhile, prefill included.

    The parts of all its steps are shared out in proportion over the time between its tokens; at several in flight a
    step makes a token for each of them and is counted once.
    """
    gap_alone = fmean(fmean(answer.gaps) for answer in alone.answers)
    busy = alone.seconds
    token = {name: gap_alone * seconds / busy for name, seconds in parts.items()}
    token[OTHER] = gap_alone - sum(token.values())
    made = fmean((one.last_made - one.first_made) / (one.tokens - 1) for one in served) / 1e9
    seen = fmean(_seen(one) for one in served) / 1e9
    token[BESIDE] = made - gap_alone
    token[LAG] = seen - made
    return Breakdown(in_flight, token, seen, _request(served), fmean(one.last_seen - one.sent for one in served) / 1e9)


def _seen(one: Times) -> float:
    """Nanoseconds a token after the first chunk; 0 where all came in one."""
    later = one.tokens - one.first_tokens
    return (one.last_seen - one.first_seen) / later if later else 0.0


def _request(served: Sequence[Times]) -> dict[str, float]:
    spans: Mapping[str, Callable[[Times], int]] = {
        "network and Triton, to the generator": lambda one: one.arrived - one.sent,
        "queue": lambda one: one.scheduled - one.arrived,
        "prefill, to the first token made": lambda one: one.first_made - one.scheduled,
        "decode, to the last token made": lambda one: one.last_made - one.first_made,
        "detokenise, send, network, client: the last token": lambda one: one.last_seen - one.last_made,
    }
    return {name: fmean(span(one) for one in served) / 1e9 for name, span in spans.items()}


def _lines(parts: Mapping[str, float], whole: float, what: str) -> Iterator[str]:
    for name, seconds in parts.items():
        yield f"  {name:<58}{1e3 * seconds:>10.3f} ms{seconds / whole:>8.1%}"
    yield f"  {what:<58}{1e3 * whole:>10.3f} ms"
