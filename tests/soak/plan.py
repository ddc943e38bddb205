"""What a mixed load asks: every request is planned from one seed, so that a run can be had again."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

__all__ = ["Leave", "Plan", "Route", "mixed_plans"]

Route = Literal["generator", "unary", "ensemble"]
Leave = Literal["", "cancel", "stop"]  # the client goes away, or sends ``stop`` and reads to the end

_TEXT = (
    "The ferry left the small harbour at six in the morning, and the gulls followed it past the lighthouse; when the "
    "river rises the miller opens the upper gate first, then the lower one, and waits for the water to settle"
)
_GUIDES: Sequence[tuple[str, str]] = (
    ("regex", "[a-z]{4,12}"),
    ("json_schema", json.dumps({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]})),
)
_DISTINCT = 24  # greedy bodies, each of which is also run alone
_LONG = 6  # of those whose clients leave: they must not be over before


@dataclass(frozen=True)
class Plan:
    """One request: its inputs by name, and what its client does. Arrays are sent as they are, right or wrong."""

    number: int
    route: Route
    values: Mapping[str, Any]
    malformed: bool = False
    leave: Leave = ""
    leave_after: float = 0.0  # chunks of a stream, else seconds

    @property
    def request_id(self) -> str:
        return f"load-{self.number}"

    def stays(self) -> Plan:
        """The same, but who leaves sends ``stop`` and reads on to the end.

        A gRPC call that its client resets costs Triton 2.50 its count of requests in flight when it ends in that
        moment, and once in some ten thousand times its life (see ``triton_llm_client.grpc_call``).
        """
        return replace(self, leave="stop") if self.leave else self

    @property
    def streams(self) -> bool:
        return bool(self.values.get("stream"))

    @property
    def greedy(self) -> bool:
        """Whether it says again, word for word, what it says alone; a deadline may only cut it short."""
        return not self.malformed and "temperature" not in self.values and "num_return_sequences" not in self.values

    def alone(self) -> Plan:
        """The same request through the generator, in one piece and without a deadline."""
        values = {name: value for name, value in self.values.items() if name not in ("stream", "timeout")}
        return replace(self, route="generator", values=values, leave="")

    @property
    def body(self) -> str:
        """What two requests that ask for the same have in common."""
        return json.dumps(dict(self.alone().values), sort_keys=True)


def mixed_plans(seed: int, count: int, routes: Sequence[Route], *, context: int = 2048) -> list[Plan]:
    """``count`` requests: a tenth malformed, a third left at random moments, the rest short and long of every kind."""
    draw = random.Random(seed)
    bodies = [_greedy_body(draw) for _ in range(_DISTINCT)]
    long = [_greedy_body(draw) | {"max_tokens": 400, "ignore_eos": True} for _ in range(_LONG)]
    return [_plan(draw, number, draw.choice(routes), bodies, long, context) for number in range(count)]


def _plan(
    draw: random.Random,
    number: int,
    route: Route,
    bodies: Sequence[Mapping[str, Any]],
    long: Sequence[Mapping[str, Any]],
    context: int,
) -> Plan:
    leaves = draw.random() < 1 / 3
    values = dict(draw.choice(long if leaves else bodies)) if draw.random() < 0.6 else _sampled_body(draw)
    if route != "unary":
        values["stream"] = draw.random() < 0.7
    if draw.random() < 0.1:
        return Plan(number, route, {**values, **draw.choice(_mistakes(context))}, malformed=True)
    if draw.random() < 0.1:
        values["timeout"] = draw.randrange(1_000, 400_000)  # microseconds
    plan = Plan(number, route, values)
    if leaves:
        after = draw.randrange(6) if plan.streams else draw.random() * 0.3
        return replace(plan, leave=draw.choice(("cancel", "cancel", "stop")), leave_after=after)
    return plan


def _greedy_body(draw: random.Random) -> dict[str, Any]:
    long = draw.random() < 0.2
    values: dict[str, Any] = {
        "text_input": _text(draw, draw.randrange(60, 180) if long else draw.randrange(2, 24)),
        "max_tokens": draw.randrange(1, 120),
    }
    if draw.random() < 0.25:
        values["guided_decoding_guide_type"], values["guided_decoding_guide"] = draw.choice(_GUIDES)
    elif draw.random() < 0.5:
        values["ignore_eos"] = True
    return values


def _sampled_body(draw: random.Random) -> dict[str, Any]:
    values = _greedy_body(draw) | {"temperature": 0.8, "seed": draw.randrange(1 << 32)}
    if draw.random() < 0.5:
        values["num_return_sequences"] = draw.randrange(2, 5)
    return values


def _text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choice(_TEXT.split()) for _ in range(words))


def _mistakes(context: int) -> Sequence[Mapping[str, Any]]:
    """Each makes any request one that must be refused: some by Triton, most by us."""
    return (
        {"max_tokens": 0},
        {"max_tokens": context * 2},
        {"temperature": -1.0},
        {"top_p": float("nan")},
        {"text_input": ""},
        {"text_input": "word " * context * 4},
        {"messages": '[{"role": "user", "content": "x"}]'},
        {"messages": "{not json"},
        {"sampling_parameters": "[1, 2]"},
        {"guided_decoding_guide_type": "regex", "guided_decoding_guide": "("},
        {"guided_decoding_guide_type": "no_such_kind", "guided_decoding_guide": "x"},
        {"max_tokens": np.array([[1.5]], np.float32)},
        {"max_tokens": np.array([[1, 2]], np.int32)},
        {"lora_task_id": 7},
        {"no_such_tensor": np.array([[1]], np.int32)},
    )
