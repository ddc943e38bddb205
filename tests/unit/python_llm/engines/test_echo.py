"""The echo engine keeps the engine's contract, and its script."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector import Collector
from echo_artifact import make_echo_artifact
from python_llm import engine as engines
from python_llm.artifact import MANIFEST, Artifact
from python_llm.engine import EngineLimits, Failed, GenerateRequest
from python_llm.engines.echo import EchoEngine, EchoScript
from python_llm.errors import EngineFailure
from python_llm.records import RecordError
from python_llm.settings import ServingConfig

LIMITS = EngineLimits(max_sequence_len=64, vocab_size=512, max_running=2, cache_tokens=1000)


@contextmanager
def echo(**script: Any) -> Iterator[EchoEngine]:
    engine = EchoEngine(LIMITS, EchoScript(**script))
    try:
        yield engine
    finally:
        engine.close()
    assert engine.stats().running == engine.stats().waiting == 0


def test_it_repeats_the_prompt_in_a_circle() -> None:
    with echo() as engine:
        sink = Collector()
        engine.submit(GenerateRequest("x", (1, 2, 3), 7), sink)
        end = sink.finished()
        assert (sink.ids, end.reason, end.usage.output_tokens) == ([1, 2, 3, 1, 2, 3, 1], "length", 7)


def test_resumed_tokens_are_skipped() -> None:
    with echo() as engine:
        sink = Collector()
        engine.submit(GenerateRequest("x", (1, 2, 3), 5, resume_ids=(1, 2, 3)), sink)
        assert sink.finished().usage.output_tokens == 5
        assert sink.ids == [1, 2]


def test_it_fails_on_command_and_goes_on() -> None:
    with echo(fail_at=1) as engine:
        sink, after = Collector(), Collector()
        engine.submit(GenerateRequest("x", (1,), 5), sink)
        end = sink.wait()
        assert isinstance(end, Failed)
        assert "step 1" in end.error.text
        engine.submit(GenerateRequest("y", (1,), 5), after)
        assert after.finished().reason == "length"


def test_stalled_it_can_be_cancelled_and_closed() -> None:
    with echo(stall_at=1) as engine:
        sinks = [Collector() for _ in range(3)]
        for number, sink in enumerate(sinks):
            engine.submit(GenerateRequest(str(number), (1,), 5), sink)
        engine.cancel("0")
        engine.cancel("0")
        assert sinks[0].finished().reason == "cancelled"
        assert (engine.stats().running, engine.stats().waiting, engine.stats().steps) == (2, 0, 0)
        engine.drain(time.monotonic())
        assert [sink.finished().reason for sink in sinks] == ["cancelled"] * 3


def test_closed_it_refuses() -> None:
    with echo() as engine:
        pass
    sink = Collector()
    engine.submit(GenerateRequest("x", (1,), 5), sink)
    assert isinstance(sink.wait(), Failed)
    assert not engine.healthy()


def test_an_artifact_is_loaded_by_its_kind(checkpoint: Path, tmp_path: Path) -> None:
    artifact = make_echo_artifact(tmp_path / "echo", checkpoint, script={"fail_at": 2})
    engine = engines.load(artifact, ServingConfig(max_sequence_len=32))
    try:
        assert (engine.limits.max_sequence_len, engine.limits.vocab_size) == (32, 512)
        sink = Collector()
        engine.submit(GenerateRequest("x", (1,), 5), sink)
        assert isinstance(sink.wait(), Failed)
    finally:
        engine.close()


def test_an_unknown_command_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="did you mean 'fail_at'"):
        engines.load(make_echo_artifact(tmp_path / "echo", checkpoint, script={"fail_att": 2}))


def test_a_kind_without_an_engine_names_those_there_are(checkpoint: Path, tmp_path: Path) -> None:
    artifact = make_echo_artifact(tmp_path / "echo", checkpoint)
    manifest = replace(Artifact.open(artifact).manifest, kind="abacus")
    (artifact / MANIFEST).write_text(manifest.to_json(), "utf-8")
    with pytest.raises(EngineFailure) as caught:
        engines.load(artifact)
    assert caught.value.reason == "no_engine"
    for word in ("'abacus'", "echo", "openvino-ir"):
        assert word in caught.value.text
