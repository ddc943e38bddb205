"""Streams through the gateway as an OpenAI client reads them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

from gateway_under_test import GatewayUnderTest

__all__ = ["Stream", "ask_all", "requests_of_all_kinds"]

WAIT_SECONDS = 240.0  # only catches hangs
TOKENS = 1200


@dataclass
class Stream:
    """One streamed completion: the texts by choice, how each ended, what was counted."""

    body: Mapping[str, Any]
    texts: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    usage: Mapping[str, int] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None  # in the midst, or instead of a stream
    events: int = 0
    done: bool = False  # [DONE] came
    begun: threading.Event = field(default_factory=threading.Event)

    def read(self, gateway: GatewayUnderTest, client: httpx.Client) -> Stream:
        with client.stream("POST", f"{gateway.url}/v1/completions", json=self.body, timeout=WAIT_SECONDS) as answer:
            if answer.status_code != 200:
                self.error = json.loads(answer.read())["error"]
                return self
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    self._take(line.removeprefix("data: "))
        return self

    def _take(self, data: str) -> None:
        assert not self.done
        if data == "[DONE]":
            self.done = True
            return
        event = json.loads(data)
        self.events += 1
        self.error = event.get("error", self.error)
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", ()):
            index = choice["index"]
            assert index not in self.reasons or not choice["text"], "text after the end"
            self.texts[index] = self.texts.get(index, "") + choice["text"]
            if choice["finish_reason"] is not None:
                assert index not in self.reasons
                self.reasons[index] = choice["finish_reason"]
        if len(self.texts) == self.body.get("n", 1):
            self.begun.set()


def ask_all(
    gateway: GatewayUnderTest, bodies: Sequence[Mapping[str, Any]], when_half_run: Callable[[], object] = lambda: None
) -> list[Stream]:
    """All at once; ``when_half_run`` is called when half of them have text, and none can have ended yet."""
    streams = [Stream(body) for body in bodies]
    with httpx.Client(limits=httpx.Limits(max_connections=None)) as client, ThreadPoolExecutor(len(streams)) as threads:
        reading = [threads.submit(stream.read, gateway, client) for stream in streams]
        while any(not future.done() for future in reading):
            waiting = [stream for stream in streams if not stream.begun.is_set()]
            if len(waiting) <= len(streams) // 2:
                break
            waiting[0].begun.wait(0.05)
        when_half_run()
        return [future.result(WAIT_SECONDS) for future in reading]


def requests_of_all_kinds() -> list[dict[str, Any]]:
    """Sixteen: greedy, penalised, guided, and several sampled sequences; each long enough to be disturbed."""
    common = {
        "model": "tiny",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "temperature": 0,
    }
    kinds: list[dict[str, Any]] = [{} for _ in range(8)]
    kinds += [
        {"frequency_penalty": 0.5, "repetition_penalty": 1.1},
        {"presence_penalty": 1.0},
        {"frequency_penalty": 1},
    ]
    guide = {"guided_decoding_guide_type": "regex", "guided_decoding_guide": "([a-z]{1,9} ){2000}"}
    kinds += [guide, guide]
    kinds += [{"n": 2, "temperature": 0.9, "seed": seed} for seed in (1, 2, 3)]
    return [{**common, "prompt": f"{number}. The quick brown fox", **kind} for number, kind in enumerate(kinds)]
