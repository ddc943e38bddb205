"""The TensorRT-LLM engine keeps the engine's contract, whatever the version and the kind of artifact."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from collector import Collector
from fake_tensorrt_llm import NEW, WITHOUT_ENGINES, make_adapter, make_tensorrt_artifact, version_in_use
from python_llm import engine as engines
from python_llm.engine import BeamParams, Engine, Failed, Finished, GenerateRequest, Guide, SamplingParams
from python_llm.engines.tensorrt.engine import TensorRtEngine
from python_llm.engines.tensorrt.library import Library
from python_llm.errors import EngineFailure, InvalidRequest, Unsupported
from python_llm.settings import ServingConfig
from server_under_test import wait_until
from tiny_checkpoint import make_tiny_checkpoint

from .conftest import CONTEXT, VOCABULARY, Open

PROMPT = tuple(range(20, 60))
ENDLESS = GenerateRequest("x", PROMPT, 40)


def run(engine: Engine, request: GenerateRequest) -> Collector:
    sink = Collector(request.sequence_count)
    engine.submit(request, sink)
    sink.wait()
    assert not sink.late
    return sink


def fails(engine: Engine, request: GenerateRequest) -> Failed:
    end = run(engine, request).wait()
    assert isinstance(end, Failed)
    return end


def executor_of(engine: Engine) -> Any:
    assert isinstance(engine, TensorRtEngine)
    return engine._llm._executor


def test_a_request_runs_to_its_length(version: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, version=version) as engine:
        sink = run(engine, ENDLESS)
        end = sink.finished()
        assert (end.reason, end.usage.prompt_tokens, end.usage.output_tokens) == ("length", len(PROMPT), 40)
        assert len(sink.ids) == 40
        assert all(0 <= token_id < VOCABULARY for token_id in sink.ids)
        assert run(engine, replace(ENDLESS, request_id="again")).ids == sink.ids
        assert engine.healthy()
        assert engine.stats().steps >= 40


def test_capabilities_follow_version_and_build(version: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, version=version) as engine:
        can = engine.capabilities
        assert can.priorities == (version == NEW)
        assert can.resume
        assert can.sequences
        assert can.log_probs
        assert can.cache_salt
        assert not can.guides
        assert can.max_beam_width == 1
        assert "no_repeat_ngram_size" in can.sampling


def test_the_token_that_ends_a_sequence_is_not_part_of_it(pinned: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind) as engine:
        ids = run(engine, ENDLESS).ids
        last = next(position for position in range(5, 40) if ids[position] not in ids[:position])
        for request in (
            replace(ENDLESS, request_id="end", end_ids=frozenset({ids[last]})),
            replace(ENDLESS, request_id="one of two", end_ids=frozenset({ids[last], 299, 0} - set(ids[:last]))),
            replace(ENDLESS, request_id="stop", stop_ids=frozenset({ids[last]})),
        ):
            sink = run(engine, request)
            end = sink.finished()
            assert (sink.ids, end.reason, end.stop_id) == (ids[:last], "stop", ids[last])


def test_end_tokens_wait_for_min_tokens(pinned: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind) as engine:
        first = run(engine, ENDLESS).ids[0]
        sink = run(engine, replace(ENDLESS, request_id="y", end_ids=frozenset({first}), min_tokens=10))
        assert len(sink.ids) >= 10
        assert first not in sink.ids[:10]


def test_seeds_decide_and_sequences_differ(version: str, kind: str, open_engine: Open) -> None:
    sampled = replace(ENDLESS, sampling=SamplingParams(temperature=1.0, seed=5), sequence_count=3)
    with open_engine(kind, version=version) as engine:
        one, two = run(engine, sampled), run(engine, replace(sampled, request_id="two"))
        assert one.streams == two.streams
        assert len({tuple(ids) for ids in one.streams.values()}) == 3
        alone = run(engine, replace(sampled, request_id="alone", sequence_count=1, first_index=1))
        assert alone.streams[1] == one.streams[1]
        other = replace(sampled, request_id="other", sampling=SamplingParams(temperature=1.0, seed=6))
        assert run(engine, other).streams != one.streams


def test_greedy_sequences_are_all_the_same(pinned: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind) as engine:
        sink = run(engine, replace(ENDLESS, sequence_count=2))
        assert sink.streams[0] == sink.streams[1] == run(engine, replace(ENDLESS, request_id="one")).ids


def test_log_probs_come_with_their_tokens(version: str, kind: str, open_engine: Open) -> None:
    asked = replace(ENDLESS, log_probs=True, top_log_probs=3, prompt_log_probs=True)
    with open_engine(kind, version=version) as engine:
        sink = run(engine, asked)
        assert len(sink.ids) == len(sink.log_probs[0]) == len(sink.top_log_probs[0]) == 40
        for token_id, value, top in zip(sink.ids, sink.log_probs[0], sink.top_log_probs[0], strict=True):
            assert top[0] == (token_id, value)  # greedy
            assert len(top) == 3
            assert [each[1] for each in top] == sorted((each[1] for each in top), reverse=True)
        assert sink.prompt is not None
        assert len(sink.prompt.log_probs) == len(sink.prompt.top_log_probs) == len(PROMPT) - 1
        plain = run(engine, replace(asked, request_id="plain", top_log_probs=0))
        assert plain.log_probs[0] == sink.log_probs[0]
        assert not any(plain.top_log_probs[0])


def test_a_prompt_is_scored_without_a_token(pinned: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind) as engine:
        sink = run(engine, replace(ENDLESS, max_tokens=0, prompt_log_probs=True))
        assert sink.prompt is not None
        assert (sink.ids, sink.finished().reason, sink.finished().usage.output_tokens) == ([], "length", 0)


def test_a_build_without_logits_refuses_them_by_name(pinned: str, open_engine: Open) -> None:
    build = {"gather_context_logits": False, "gather_generation_logits": False}
    with open_engine("tensorrt_llm-engine", build=build) as engine:
        assert not engine.capabilities.log_probs
        error = fails(engine, replace(ENDLESS, prompt_log_probs=True)).error
        assert isinstance(error, Unsupported)
        assert "gather_context_logits" in error.text


def test_resumed_tokens_are_not_sent_again(version: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, version=version) as engine:
        whole = run(engine, ENDLESS).ids
        for cut in (1, 17, 39):
            sink = run(engine, replace(ENDLESS, request_id=f"at {cut}", resume_ids=tuple(whole[:cut])))
            assert sink.ids == whole[cut:]
            assert sink.finished().usage.output_tokens == 40


def test_cancelling_ends_it_once(version: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, version=version, script={"step_seconds": 0.05}) as engine:
        sink = Collector(2)
        engine.submit(replace(ENDLESS, max_tokens=200, sequence_count=2), sink)
        wait_until(lambda: len(sink.streams[0]) > 2, "tokens", 60)
        engine.cancel("x", 1)
        wait_until(lambda: 1 in sink.ends, "the end of one sequence", 60)
        assert sink.ends[1].reason == "cancelled"
        assert 0 not in sink.ends
        engine.cancel("x")
        engine.cancel("x")
        engine.cancel("unknown")
        assert sink.finished().reason == "cancelled"
        assert not sink.late
        wait_until(lambda: not executor_of(engine)._jobs, "the library to be rid of it", 60)


def test_one_cancelled_at_once_never_runs(pinned: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, script={"step_seconds": 0.05}) as engine:
        sink = Collector()
        engine.submit(replace(ENDLESS, max_tokens=200), sink)
        engine.cancel("x")
        assert sink.finished().reason == "cancelled"
        wait_until(lambda: not executor_of(engine)._jobs, "nothing left in the library", 60)


def test_a_request_that_fails_leaves_the_others_alone(version: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, version=version, script={"fail_id": 3, "step_seconds": 0.002}) as engine:
        beside = Collector()
        engine.submit(replace(ENDLESS, request_id="beside"), beside)
        failed = fails(engine, replace(ENDLESS, prompt_ids=(1, 2, 3)))
        assert isinstance(failed.error, EngineFailure)
        assert "told to fail on it" in failed.error.text
        assert beside.finished().reason == "length"
        assert engine.healthy()


def test_a_dead_executor_fails_every_request_and_is_not_healthy(version: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, version=version, script={"die_at": 5, "step_seconds": 0.01}) as engine:
        sinks = [Collector() for _ in range(3)]
        for number, sink in enumerate(sinks):
            engine.submit(replace(ENDLESS, request_id=str(number)), sink)
        for sink in sinks:
            end = sink.wait()
            assert isinstance(end, Failed)
            assert end.error.reason == "engine_failed"
            assert "told to die at step 5" in end.error.text
        assert not engine.healthy()
        assert fails(engine, replace(ENDLESS, request_id="after")).error.reason == "engine_failed"


def test_a_dead_rank_fails_fast_with_its_last_lines(version: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, version=version, tp=2, script={"rank_dies_at": 3, "step_seconds": 0.05}) as engine:
        error = fails(engine, replace(ENDLESS, max_tokens=200)).error
        assert error.reason == "engine_failed"
        assert "rank 1 ended with code -9" in error.text
        assert "[rank 1] pid" in error.text
        assert not engine.healthy()


def test_a_rank_that_dies_at_the_start_is_a_failed_start(version: str, kind: str, open_engine: Open) -> None:
    with (
        pytest.raises(EngineFailure, match=r"(?s)engine_not_started.*rank 3 ended with code 9.*out of memory"),
        open_engine(kind, version=version, tp=2, pp=2, script={"rank_dies_at_start": True}),
    ):
        pass


def test_what_the_library_refuses_is_the_callers_mistake(pinned: str, open_engine: Open) -> None:
    with open_engine("tensorrt_llm-checkpoint") as engine:
        assert isinstance(engine, TensorRtEngine)
        engine._llm._limits["max_seq_len"] = 50  # as a library whose bounds are tighter than its artifact's
        error = fails(engine, ENDLESS).error
        assert isinstance(error, InvalidRequest)
        assert error.reason == "refused_by_library"
        assert engine.healthy()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (replace(ENDLESS, max_tokens=CONTEXT), "request_too_long"),
    ],
)
def test_what_can_never_run_is_refused(pinned: str, kind: str, open_engine: Open, request_: Any, words: str) -> None:
    with open_engine(kind) as engine:
        assert words in str(fails(engine, request_).error)


def test_a_prompt_over_the_builds_input_is_refused(pinned: str, open_engine: Open) -> None:
    with open_engine("tensorrt_llm-engine", build={"max_input_len": 32}) as engine:
        assert fails(engine, ENDLESS).error.reason == "request_too_long"


def test_penalties_bias_and_banned_tokens_reach_the_library(pinned: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind) as engine:
        ids = run(engine, ENDLESS).ids
        banned = replace(ENDLESS, request_id="b", sampling=SamplingParams(bad_words=((ids[0],),)))
        assert ids[0] not in run(engine, banned).ids
        biased = replace(ENDLESS, request_id="c", sampling=SamplingParams(logit_bias=((11, 100.0),)))
        assert run(engine, biased).ids == [11] * 40
        no_repeat = SamplingParams(logit_bias=((11, 100.0), (12, 90.0)), no_repeat_ngram_size=2)
        grams = run(engine, replace(ENDLESS, request_id="d", sampling=no_repeat)).ids
        assert len(set(pairwise(grams))) == len(grams) - 1
        repelled = SamplingParams(logit_bias=((11, 50.0), (12, 49.0)), frequency_penalty=2.0)
        assert set(run(engine, replace(ENDLESS, request_id="e", sampling=repelled)).ids) >= {11, 12}


def test_a_word_of_several_tokens_is_banned_and_its_parts_are_not(version: str, kind: str, open_engine: Open) -> None:
    loud = ((11, 90.0), (12, 80.0), (13, 70.0))
    with open_engine(kind, version=version) as engine:
        free = SamplingParams(logit_bias=loud, no_repeat_ngram_size=2)
        ids = run(engine, replace(ENDLESS, max_tokens=8, sampling=free)).ids
        assert (11, 12) in pairwise(ids)
        banned = replace(free, bad_words=((11, 12), (13,)))
        ids = run(engine, replace(ENDLESS, request_id="b", max_tokens=8, sampling=banned)).ids
        assert (11, 12) not in pairwise(ids)
        assert ids[:2] == [11, 11]
        assert 13 not in ids
        other = replace(free, bad_words=((11, 14), (11, 11)))
        ids = run(engine, replace(ENDLESS, request_id="c", max_tokens=8, sampling=other)).ids
        assert ids[:2] == [11, 12]


def test_a_version_that_cannot_ban_words_refuses_them_by_name(
    pinned: str, kind: str, open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Library, "bans_words", False)
    with open_engine(kind) as engine:
        error = fails(engine, replace(ENDLESS, sampling=SamplingParams(bad_words=((5, 6),)))).error
        assert isinstance(error, Unsupported)
        assert "bad_words: TensorRT-LLM 1.2.1 bans single tokens" in error.text


def test_priorities_order_what_waits(pinned: str, tmp_path: Path, checkpoint: Path) -> None:
    with version_in_use(NEW, tmp_path / "newer"):
        artifact = make_tensorrt_artifact(
            tmp_path / "artifact", checkpoint, kind="tensorrt_llm-checkpoint", script={"step_seconds": 0.05}
        )
        engine = engines.load(artifact, ServingConfig(max_running=1))
        try:
            order: list[str] = []
            sinks = {name: _Ordered(name, order) for name in ("first", "late", "early")}
            engine.submit(replace(ENDLESS, request_id="first", max_tokens=200), sinks["first"])
            wait_until(lambda: sinks["first"].ids, "the first one's tokens", 60)
            engine.submit(replace(ENDLESS, request_id="late", priority=5, max_tokens=4), sinks["late"])
            engine.submit(replace(ENDLESS, request_id="early", priority=-5, max_tokens=4), sinks["early"])
            wait_until(lambda: len(executor_of(engine)._jobs) == 3, "all three", 60)
            engine.cancel("first")
            for sink in sinks.values():
                sink.wait()
            assert order == ["first", "early", "late"]
        finally:
            engine.close()


class _Ordered(Collector):
    def __init__(self, name: str, order: list[str]) -> None:
        super().__init__()
        self._name, self._order = name, order

    def __call__(self, event: Any, /) -> None:
        if isinstance(event, (Finished, Failed)):
            self._order.append(self._name)
        super().__call__(event)


def test_statistics_are_the_librarys(version: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, version=version) as engine:
        run(engine, ENDLESS)
        run(engine, replace(ENDLESS, request_id="again"))
        wait_until(lambda: engine.stats().prefix_tokens_hit > 0, "the library's statistics", 60)
        stats = engine.stats()
        assert (stats.block_size, stats.blocks_total) == (32, 1000)
        assert stats.prefix_tokens_seen == 2 * stats.prefix_tokens_hit == 64


def test_draining_waits_and_then_cancels(pinned: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, script={"step_seconds": 0.03}) as engine:
        sink = Collector()
        engine.submit(ENDLESS, sink)
        engine.drain(time.monotonic() + 60.0)
        assert sink.finished().reason == "length"
        long = Collector()
        engine.submit(replace(ENDLESS, request_id="long", max_tokens=200), long)
        engine.drain(0.0)
        assert long.finished().reason == "cancelled"


def test_a_closed_engine_takes_nothing(pinned: str, kind: str, open_engine: Open) -> None:
    with open_engine(kind, script={"step_seconds": 0.05}) as engine:
        running = Collector()
        engine.submit(replace(ENDLESS, max_tokens=200), running)
        engine.close()
        assert running.finished().reason == "cancelled"
        assert fails(engine, replace(ENDLESS, request_id="y")).error.reason == "engine_closed"
        engine.close()


def test_engines_end_with_1_3(tmp_path: Path, checkpoint: Path) -> None:
    with version_in_use(WITHOUT_ENGINES, tmp_path / "site"):
        folder = make_tensorrt_artifact(
            tmp_path / "engine", checkpoint, kind="tensorrt_llm-engine", version=WITHOUT_ENGINES
        )
        with pytest.raises(EngineFailure, match="runs no engines any more"):
            engines.load(folder)
        folder = make_tensorrt_artifact(
            tmp_path / "new", checkpoint, kind="tensorrt_llm-checkpoint", version=WITHOUT_ENGINES
        )
        engine = engines.load(folder)
        assert len(run(engine, ENDLESS).ids) == 40
        engine.close()


def test_loading_imports_nothing_until_the_knobs_are_checked(pinned: str, tmp_path: Path, checkpoint: Path) -> None:
    folder = make_tensorrt_artifact(tmp_path / "artifact", checkpoint)
    with pytest.raises(Exception, match="did you mean"):
        engines.load(folder, ServingConfig(engine_options={"kv_cache_confg": {}}))
    assert "tensorrt_llm" not in sys.modules


def test_each_request_chooses_its_adapter(version: str, kind: str, tmp_path: Path, checkpoint: Path) -> None:
    folder = make_tensorrt_artifact(tmp_path / "artifact", checkpoint, kind=kind, version=version)
    folders = [f"../{make_adapter(tmp_path / name).name}" for name in ("french", "legal")]
    engine = engines.load(folder, ServingConfig(engine_options={"lora_config": {"lora_dir": folders}}))
    try:
        assert engine.capabilities.adapters == ("french", "legal")
        texts = [run(engine, replace(ENDLESS, adapter=name)).ids for name in ("", "french", "legal", "french", "")]
        assert texts[:2] == [texts[4], texts[3]]
        assert len({tuple(text) for text in texts}) == 3
    finally:
        engine.close()


def test_an_adapter_over_the_rank_is_its_requests_error(
    pinned: str, kind: str, tmp_path: Path, checkpoint: Path
) -> None:
    """Preflight finds it before; an adapter that grew meanwhile costs its requests alone."""
    folder = make_tensorrt_artifact(tmp_path / "artifact", checkpoint, kind=kind)
    make_adapter(tmp_path / "large", rank=32)
    given = {"lora_config": {"lora_dir": ["../large"], "max_lora_rank": 16}}
    engine = engines.load(folder, ServingConfig(engine_options=given))
    try:
        error = fails(engine, replace(ENDLESS, adapter="large")).error
        assert isinstance(error, InvalidRequest)
        assert "rank 32 exceeds max_lora_rank" in error.text
        assert len(run(engine, replace(ENDLESS, request_id="y")).ids) == 40
    finally:
        engine.close()


def test_a_guide_is_followed(pinned: str, kind: str, tmp_path: Path) -> None:
    folder = make_tensorrt_artifact(tmp_path / "artifact", make_tiny_checkpoint(tmp_path / "tiny", layers=1), kind=kind)
    engine = engines.load(folder, ServingConfig(engine_options={"guided_decoding_backend": "xgrammar"}))
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        guided = replace(ENDLESS, end_ids=frozenset({2}), guide=Guide("regex", "[0-9]{4}"))
        sink = run(engine, guided)
        assert re.fullmatch("[0-9]{4}", tokenizer.decode(sink.ids))
        assert sink.finished().reason == "stop"
        error = fails(engine, replace(guided, request_id="y", resume_ids=(50,))).error
        assert isinstance(error, Unsupported)
        broken = fails(engine, replace(guided, request_id="z", guide=Guide("regex", "("))).error
        assert isinstance(broken, InvalidRequest)
    finally:
        engine.close()


def test_beams_come_whole_and_best_first(version: str, kind: str, tmp_path: Path, checkpoint: Path) -> None:
    build = {"max_beam_width": 4}
    folder = make_tensorrt_artifact(tmp_path / "artifact", checkpoint, kind=kind, version=version, build=build)
    given = {} if kind == "tensorrt_llm-engine" else {"max_beam_width": 4}
    engine = engines.load(folder, ServingConfig(engine_options=given))
    try:
        assert engine.capabilities.max_beam_width == 4
        sink = run(engine, replace(ENDLESS, beam=BeamParams(4), sequence_count=2))
        assert sorted(sink.streams) == [0, 1]
        assert sink.streams[0] != sink.streams[1]
        assert all(len(ids) == 40 for ids in sink.streams.values())
        error = fails(engine, replace(ENDLESS, request_id="y", beam=BeamParams(4), log_probs=True)).error
        assert isinstance(error, Unsupported)
    finally:
        engine.close()
