"""The sampler: series come with the generator and go with it; two copies of one model take turns."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import triton_python_backend_utils as pb_utils
from hand_engine import HandEngine
from keeping_reply import KeepingReply
from python_llm.admission import Admission
from python_llm.generator import Generator
from python_llm.recorder import Recorder
from python_llm.sampler import Sampler, Turn
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer
from server_under_test import wait_until

LABELS = {"model": "sampled-generator", "version": "1"}
_PATIENCE_SECONDS = 60.0  # only catches hangs
_OFTEN = 0.01


class Copy:
    """One live copy of a model."""

    def __init__(self, tokenizer: Tokenizer, triton: Any = pb_utils) -> None:
        self.engine = HandEngine()
        serving = ServingConfig()
        admission = Admission(tokenizer, self.engine.limits, self.engine.capabilities, serving, ())
        self.recorder = Recorder()
        self.served = 0
        self.generator = Generator(self.engine, tokenizer, serving, admission, self.recorder)
        self.sampler = Sampler(self.generator, self.recorder, triton, LABELS, _OFTEN)

    def serve_one(self) -> None:
        self.served += 1
        self.generator.submit({"input_ids": [1, 2], "max_tokens": 1}, str(self.served), KeepingReply())
        self.engine.wait_for(1)
        self.engine.step()
        wait_until(lambda: self.recorder.groups()["finished"][("length",)] == self.served, "its end", _PATIENCE_SECONDS)

    def close(self) -> None:
        self.generator.close(0.0)
        self.sampler.join()


@pytest.fixture
def copies(tokenizer: Tokenizer) -> Iterator[list[Copy]]:
    gc.collect()
    made = [Copy(tokenizer)]
    yield made
    for copy in made:
        copy.close()


def finished() -> float:
    """Requests that the port says ended by length; -1: it says nothing."""
    key = ("triton_llm_requests_finished_total", tuple(sorted({**LABELS, "finish_reason": "length"}.items())))
    metric = pb_utils.MetricFamily.port.get(key)
    return -1.0 if metric is None else metric.value()


def wait_for(number: float) -> None:
    wait_until(lambda: finished() == number, f"{number} on the port", _PATIENCE_SECONDS)


def test_series_come_and_go_with_the_generator(copies: list[Copy]) -> None:
    wait_for(0)
    copies[0].serve_one()
    wait_for(1)
    copies[0].close()
    assert finished() == -1
    assert not [key for key in pb_utils.MetricFamily.port if ("model", LABELS["model"]) in key[1]]


def test_a_second_copy_counts_on_and_publishes_when_the_first_has_left(
    copies: list[Copy], tokenizer: Tokenizer
) -> None:
    copies[0].serve_one()
    wait_for(1)
    copies.append(Copy(tokenizer))
    for _ in range(2):
        copies[1].serve_one()
    assert finished() == 1
    copies[0].close()
    wait_for(2)  # its own alone: it began at zero


def test_trouble_is_logged_once_and_serving_goes_on(tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        copy = Copy(tokenizer, triton=object())
        copy.serve_one()
        wait_until(lambda: caplog.records, "a line in the log", _PATIENCE_SECONDS)
        copy.close()
    assert len([r for r in caplog.records if "metrics" in r.message]) == 1


def test_a_turn_is_one_processs_at_a_time() -> None:
    first, second, other = Turn("x"), Turn("x"), Turn("y")
    assert first.take()
    assert first.take()
    assert not second.take()
    assert other.take()
    first.leave()
    assert second.take()
    for turn in first, second, other:
        turn.leave()
