"""What one request may ask of the paged engine, and what its neighbours never notice."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from collector import Collector
from fake_runner import FakeRunner
from python_llm.engine import BeamParams, Failed, GenerateRequest, Guide, SamplingParams
from python_llm.engines.paged.engine import PagedEngine
from python_llm.engines.paged.grammar import GrammarCompiler, Matcher
from python_llm.engines.paged.runner import ForwardBatch
from python_llm.errors import InvalidRequest
from python_llm.settings import ServingConfig
from python_llm.token_bytes import TokenBytes

END = 2
PLAIN = GenerateRequest("plain", (1, 2, 3), 8)


class BrokenFor(FakeRunner):
    """Gives NaN for the one sequence whose prompt begins with token 9."""

    def forward(self, batch: ForwardBatch) -> np.ndarray[Any, np.dtype[np.float32]]:
        logits = super().forward(batch)
        for row, wanted in enumerate(batch.wanted.tolist()):
            index = int(np.searchsorted(batch.subsequence_begins, wanted, side="right")) - 1
            first = self._slots[self._blocks(batch, index)].reshape(-1)[0]
            if first == 9:
                logits[row] = np.nan
        return logits


class SlowCompiler(GrammarCompiler):
    """Compiles when the test lets it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer, 512, {END})
        self.begun, self.gate = threading.Event(), threading.Event()

    def compile(self, guide: Guide, end_ids: Any = None) -> Matcher:
        self.begun.set()
        assert self.gate.wait(60)
        return super().compile(guide, end_ids)


@contextmanager
def engine_over(runner: FakeRunner, grammar: GrammarCompiler | None = None) -> Iterator[PagedEngine]:
    engine = PagedEngine(runner, ServingConfig(max_running=8), context_length=400, grammar=grammar)
    try:
        yield engine
    finally:
        engine.close()
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.blocks_used) == (0, 0, 0)


def run(engine: PagedEngine, *requests: GenerateRequest) -> list[Collector]:
    sinks = [Collector(request.sequence_count) for request in requests]
    for request, sink in zip(requests, sinks, strict=True):
        engine.submit(request, sink)
    for sink in sinks:
        sink.wait()
    assert not any(sink.late for sink in sinks)
    return sinks


def reason_of(sink: Collector) -> str:
    end = sink.wait()
    assert isinstance(end, Failed), end
    return end.error.reason


def test_broken_logits_fail_their_own_request_alone() -> None:
    with engine_over(BrokenFor(block_count=100)) as engine:
        alone = run(engine, PLAIN)[0].ids
        searching = replace(PLAIN, request_id="b", prompt_ids=(9, 1), sequence_count=2, beam=BeamParams(2))
        several = replace(PLAIN, request_id="n", prompt_ids=(9, 2), sequence_count=3)
        plain, broken, beams, many = run(
            engine, PLAIN, replace(PLAIN, request_id="x", prompt_ids=(9, 4)), searching, several
        )
        assert plain.ids == alone
        assert [reason_of(sink) for sink in (broken, beams, many)] == ["logits_not_finite"] * 3


def test_rules_that_leave_no_token_fail_their_own_request_alone() -> None:
    nothing = SamplingParams(bad_words=tuple((i,) for i in range(32)))
    with engine_over(FakeRunner(block_count=100)) as engine:
        alone = run(engine, PLAIN)[0].ids
        plain, banned = run(engine, PLAIN, replace(PLAIN, request_id="x", sampling=nothing))
        assert plain.ids == alone
        assert reason_of(banned) == "nothing_allowed"


def test_the_prompt_alone_can_be_asked_about() -> None:
    request = replace(PLAIN, max_tokens=0, prompt_log_probs=True, top_log_probs=2)
    with engine_over(FakeRunner(block_count=100)) as engine:
        (sink,) = run(engine, request)
        end = sink.finished()
        assert (sink.ids, end.reason, end.usage.output_tokens) == ([], "length", 0)
        assert sink.prompt is not None
        assert len(sink.prompt.log_probs) == len(sink.prompt.top_log_probs) == 2
        (one,) = run(engine, replace(request, prompt_ids=(5,)))
        assert one.prompt is not None
        assert one.prompt.log_probs == ()


def test_only_the_same_salt_finds_the_blocks() -> None:
    request = GenerateRequest("x", tuple(range(20)), 4, cache_salt="mine")
    with engine_over(FakeRunner(block_count=100)) as engine:
        hits = [
            run(engine, replace(request, cache_salt=salt))[0].finished().usage
            for salt in ("mine", "yours", "", "mine", "yours", "")
        ]
    assert [usage.cached_prompt_tokens for usage in hits] == [0, 0, 0, 16, 16, 16]
    assert [usage.blocks_reused for usage in hits] == [0, 0, 0, 4, 4, 4]
    assert [usage.blocks_allocated for usage in hits] == [6, 6, 6, 2, 2, 2]


def test_more_sequences_than_run_at_once_are_refused() -> None:
    with engine_over(FakeRunner(block_count=100)) as engine:
        assert reason_of(run(engine, replace(PLAIN, sequence_count=9))[0]) == "too_many_sequences"


def test_seeded_sequences_differ_and_come_again() -> None:
    request = replace(PLAIN, sequence_count=4, sampling=SamplingParams(temperature=1.0, seed=7))
    with engine_over(FakeRunner(block_count=100)) as engine:
        first, again = run(engine, request)[0].streams, run(engine, request)[0].streams
        third = run(engine, replace(request, sequence_count=1, first_index=2))[0].streams
    assert first == again
    assert len({tuple(stream) for stream in first.values()}) == 4
    assert third == {2: first[2]}


def test_one_sequence_is_cancelled_alone() -> None:
    runner = FakeRunner(block_count=100)
    request = replace(PLAIN, sequence_count=3, max_tokens=20, sampling=SamplingParams(temperature=1.0, seed=7))
    with engine_over(runner) as engine:
        runner.before_step = lambda step: engine.cancel("plain", 1) if step == 5 else None
        (sink,) = run(engine, request)
    assert [sink.ends[index].reason for index in range(3)] == ["length", "cancelled", "length"]
    assert [len(sink.streams[index]) for index in (0, 2)] == [20, 20]
    assert len(sink.streams[1]) < 20


@pytest.mark.parametrize("sequences", [1, 3])
def test_a_guided_request_gives_what_its_guide_says(byte_level: Tokenizer, sequences: int) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"type": "boolean"}},
        "required": ["n", "b"],
        "additionalProperties": False,
    }
    guided = GenerateRequest(
        "guided",
        (5, 6),
        100,
        sampling=SamplingParams(temperature=1.0, seed=3),
        end_ids=frozenset({END}),
        sequence_count=sequences,
        guide=Guide("json_schema", json.dumps(schema)),
    )
    plain = replace(PLAIN, prompt_ids=(7, 8))
    token_bytes = TokenBytes(byte_level)
    with engine_over(FakeRunner(block_count=200, vocab_size=512), GrammarCompiler(byte_level, 512, {END})) as engine:
        alone = run(engine, plain)[0].ids
        beside, sink = run(engine, plain, guided)
        assert beside.ids == alone
        for index in range(sequences):
            text = b"".join(token_bytes[i] for i in sink.streams[index]).decode()
            found = json.loads(text)
            assert set(found) == {"n", "b"}
            assert sink.ends[index].reason == "stop"
        if sequences == 1:
            whole = sink.ids
            for cut in range(len(whole)):
                (resumed,) = run(engine, replace(guided, resume_ids=tuple(whole[:cut])))
                assert whole[:cut] + resumed.ids == whole
            (at_the_end,) = run(engine, replace(guided, resume_ids=tuple(whole)))
            assert (at_the_end.ids, at_the_end.finished().reason) == ([], "stop")
            wrong = replace(guided, resume_ids=(whole[0], whole[0]))
            assert reason_of(run(engine, wrong)[0]) == "resume_breaks_guide"


def test_a_broken_guide_touches_its_own_request_alone(byte_level: Tokenizer) -> None:
    guided = replace(PLAIN, request_id="guided", guide=Guide("regex", "(unclosed"))
    with engine_over(FakeRunner(block_count=100, vocab_size=512), GrammarCompiler(byte_level, 512, {END})) as engine:
        plain, broken = run(engine, PLAIN, guided)
        assert plain.finished().reason == "length"
        assert reason_of(broken) == "guide_not_valid"


def test_without_a_compiler_guides_are_refused_by_name() -> None:
    with engine_over(FakeRunner(block_count=100)) as engine:
        assert engine.capabilities.guides == frozenset()
        assert reason_of(run(engine, replace(PLAIN, guide=Guide("json")))[0]) == "not_supported"


def test_min_tokens_does_not_break_a_guide(byte_level: Tokenizer) -> None:
    guided = replace(PLAIN, max_tokens=60, min_tokens=50, end_ids=frozenset({END}), guide=Guide("regex", "[ab]{3}"))
    with engine_over(FakeRunner(block_count=100, vocab_size=512), GrammarCompiler(byte_level, 512, {END})) as engine:
        (sink,) = run(engine, guided)
    text = b"".join(TokenBytes(byte_level)[i] for i in sink.ids).decode()
    assert re.fullmatch("[ab]{3}", text)
    assert sink.finished().reason == "stop"


@pytest.mark.parametrize("how", ["cancel", "drain", "close"])
def test_a_request_whose_guide_still_compiles_ends_too(byte_level: Tokenizer, how: str) -> None:
    compiler = SlowCompiler(byte_level)
    sink = Collector()
    with engine_over(FakeRunner(block_count=100, vocab_size=512), compiler) as engine:
        engine.submit(replace(PLAIN, guide=Guide("regex", "a+")), sink)
        assert compiler.begun.wait(60)
        assert engine.stats().waiting == 1
        plain = replace(PLAIN, request_id="other")
        run(engine, plain)  # others go on
        if how == "cancel":
            engine.cancel("plain")
            compiler.gate.set()
            assert sink.finished().reason == "cancelled"
        elif how == "drain":
            opener = threading.Timer(0.05, compiler.gate.set)
            opener.start()
            engine.drain(0.0)
            assert sink.finished().reason == "cancelled"
            opener.join()
        else:
            opener = threading.Timer(0.05, compiler.gate.set)
            opener.start()
            engine.close()
            assert reason_of(sink) == "engine_closed"
            opener.join()


def test_resumed_at_every_cut_with_all_penalties_the_tokens_are_the_same() -> None:
    sampling = SamplingParams(
        temperature=0.9,
        seed=11,
        repetition_penalty=1.3,
        presence_penalty=0.5,
        frequency_penalty=0.3,
        no_repeat_ngram_size=2,
        bad_words=((4,), (5, 6)),
        logit_bias=((7, 1.5),),
    )
    whole = GenerateRequest("whole", (3, 1, 4), 14, min_tokens=4, sampling=sampling, stop_ids=frozenset({31}))
    with engine_over(FakeRunner(block_count=100)) as engine:
        expected = run(engine, whole)[0]
        for cut in range(len(expected.ids)):
            (sink,) = run(engine, replace(whole, resume_ids=tuple(expected.ids[:cut])))
            assert (sink.ids, sink.finished().reason) == (expected.ids[cut:], expected.finished().reason)


def test_a_refusal_is_the_callers_fault() -> None:
    with engine_over(FakeRunner(block_count=100)) as engine:
        end = run(engine, replace(PLAIN, max_tokens=399))[0].wait()
    assert isinstance(end, Failed)
    assert isinstance(end.error, InvalidRequest)
