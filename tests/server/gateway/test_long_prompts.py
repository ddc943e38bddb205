"""Prompts of 8 MB are refused with the numbers, and neither health nor other streams wait for that."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx

from tests.server.gateway.conftest import WithTools

MEGABYTES = 8 * 2**20
TEXT = "The quick brown fox jumps over the lazy dog. " * (MEGABYTES // 45)
WAIT_SECONDS = 240.0  # only catches hangs


class Beside:
    """A long stream, and questions for health, while something else goes on; ``events`` and ``looks`` count them."""

    def __init__(self, with_tools: WithTools) -> None:
        self.events = self.looks = 0
        self._url = with_tools.gateway.url
        self._begun, self._over = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._stream, self._look)]

    def __enter__(self) -> Beside:
        for thread in self._threads:
            thread.start()
        assert self._begun.wait(WAIT_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)

    def _stream(self) -> None:
        body = {"model": "tiny", "prompt": "A river", "max_tokens": 2000, "ignore_eos": True, "stream": True}
        with httpx.Client(timeout=WAIT_SECONDS) as client:
            while not self._over.is_set():
                with client.stream("POST", f"{self._url}/v1/completions", json=body) as answer:
                    for line in answer.iter_lines():
                        self.events += line.startswith("data: {")
                        self._begun.set()
                        if self._over.is_set():
                            break

    def _look(self) -> None:
        with httpx.Client(timeout=WAIT_SECONDS) as client:
            while not self._over.is_set():
                for path in ("/health/live", "/health/ready"):
                    assert client.get(f"{self._url}{path}").status_code == 200
                self.looks += 1


def test_health_and_streams_go_on_beside_prompts_of_8_megabytes(with_tools: WithTools) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/v1/completions", {"prompt": TEXT}),
        ("/v1/completions", {"prompt": "\n" * (MEGABYTES // 2)}),  # 8 MB as JSON
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": TEXT}]}),
        ("/v1/completions", {"prompt": TEXT[: 2048 * 12]}),  # tokenised, and too long then
    ]
    with Beside(with_tools) as beside, httpx.Client(timeout=WAIT_SECONDS) as client:
        for path, body in asked * 2:
            events, looks = beside.events, beside.looks
            raw = json.dumps({"model": "tiny", **body})
            answer = client.post(f"{with_tools.gateway.url}{path}", content=raw)
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert error["code"] == "context_length_exceeded"
            assert "together may have 2048" in error["message"]
            if len(raw) > MEGABYTES // 2:
                assert beside.events > events, "the stream stood still"
                assert beside.looks > looks, "health was silent"
