"""Beam search through the engine against a plain search that keeps whole lists of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import Collector
from fake_runner import FakeRunner, fake_logits
from python_llm.engine import BeamParams, Failed, FinishReason, GenerateRequest
from python_llm.engines.paged.engine import PagedEngine
from python_llm.settings import ServingConfig

VOCABULARY = 32


@dataclass
class Search:
    """What a plain search knows: (score, new tokens) of running and (score, new tokens, reason) of finished beams."""

    request: GenerateRequest
    running: list[tuple[float, list[int]]] = field(default_factory=lambda: [(0.0, [])])
    finished: list[tuple[float, list[int], FinishReason]] = field(default_factory=list)

    def run(self) -> list[tuple[list[int], FinishReason]]:
        while self.running:
            self._step()
        return [(tokens, reason) for _, tokens, reason in self.finished][: self.request.sequence_count]

    def _step(self) -> None:
        beam, request = self.request.beam, self.request
        assert beam is not None
        found: list[tuple[float, list[int]]] = []
        for score, new in self.running:
            logits = fake_logits([*request.prompt_ids, *new], VOCABULARY).astype(np.float64)
            log_probs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            for token_id, log_prob in enumerate(log_probs.tolist()):
                if len(new) >= request.min_tokens or token_id not in request.end_ids:
                    found.append((score + log_prob, [*new, token_id]))
        found.sort(key=lambda each: -each[0])
        found = found[: max(2, 1 + len(request.end_ids)) * beam.width]
        ended = [self._ended(*each) for each in found[: beam.width] if self._ends(each[1])]
        if not (beam.early_stopping and len(self.finished) == beam.width):
            self.finished = sorted([*self.finished, *ended], key=lambda each: -each[0])[: beam.width]
        self.running = [each for each in found if not self._ends(each[1])][: beam.width]
        if self.running and len(self.finished) == beam.width:
            best = self.running[0][0] / len(self.running[0][1]) ** beam.length_penalty
            if beam.early_stopping or best <= self.finished[-1][0]:
                self.running = []

    def _ends(self, new: list[int]) -> bool:
        return new[-1] in self.request.end_ids or len(new) >= self.request.max_tokens

    def _ended(self, score: float, new: list[int]) -> tuple[float, list[int], FinishReason]:
        assert self.request.beam is not None
        score /= len(new) ** self.request.beam.length_penalty
        return (score, new[:-1], "stop") if new[-1] in self.request.end_ids else (score, new, "length")


def generate(requests: list[GenerateRequest], runner: FakeRunner, **serving: int) -> list[Collector]:
    engine = PagedEngine(runner, ServingConfig(**serving), context_length=200)  # type: ignore[arg-type]
    sinks = [Collector(request.sequence_count) for request in requests]
    for request, sink in zip(requests, sinks, strict=True):
        engine.submit(request, sink)
    for sink in sinks:
        sink.wait()
    engine.close()
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.blocks_used) == (0, 0, 0)
    assert not any(sink.late for sink in sinks)
    return sinks


@st.composite
def searches(draw: st.DrawFn, request_id: str) -> GenerateRequest:
    width = draw(st.integers(2, 4))
    max_tokens = draw(st.integers(1, 9))
    return GenerateRequest(
        request_id=request_id,
        prompt_ids=tuple(draw(st.lists(st.integers(0, 1), min_size=1, max_size=10))),
        max_tokens=max_tokens,
        min_tokens=draw(st.integers(0, max_tokens)),
        end_ids=frozenset(draw(st.lists(st.integers(0, 31), max_size=4))),
        sequence_count=draw(st.integers(1, width)),
        beam=BeamParams(width, draw(st.sampled_from([0.0, 1.0, 2.0, -0.5])), draw(st.booleans())),
        log_probs=True,
    )


@given(
    requests=st.lists(st.integers(), min_size=1, max_size=3).flatmap(
        lambda numbers: st.tuples(*(searches(str(n)) for n in range(len(numbers))))
    ),
    block_size=st.integers(1, 5),
    spare=st.integers(0, 12),
    prefix_cache=st.booleans(),
)
def test_whatever_the_memory_the_beams_are_those_of_the_plain_search(
    requests: tuple[GenerateRequest, ...], block_size: int, spare: int, prefix_cache: bool
) -> None:
    most = max(r.beam.width * -(-(len(r.prompt_ids) + r.max_tokens) // block_size) for r in requests if r.beam)
    runner = FakeRunner(block_count=most + spare, block_size=block_size)
    sinks = generate([*requests], runner, max_running=6, max_num_tokens=12, prefix_cache=prefix_cache)
    for request, sink in zip(requests, sinks, strict=True):
        found = [(sink.streams[index], sink.ends[index].reason) for index in sorted(sink.ends)]
        assert found == Search(request).run()
        for index in sink.ends:
            assert len(sink.log_probs[index]) == len(sink.streams[index])


def test_beams_share_the_blocks_of_their_prompt() -> None:
    request = GenerateRequest("x", tuple(range(24)), 8, sequence_count=4, beam=BeamParams(4))
    runner = FakeRunner(block_count=64)
    sink = generate([request], runner)[0]
    assert all(end.usage.blocks_allocated < 6 + 8 for end in sink.ends.values())


def test_a_search_that_never_fits_is_refused() -> None:
    request = GenerateRequest("x", tuple(range(24)), 8, sequence_count=4, beam=BeamParams(4))
    for wanted, runner in ((request, FakeRunner(block_count=31)), (replace(request, beam=BeamParams(9)), None)):
        end = generate([wanted], runner or FakeRunner(block_count=200), max_running=8)[0].wait()
        assert isinstance(end, Failed)
        assert end.error.reason in ("request_too_long", "too_many_sequences")


def test_cut_short_the_best_so_far_is_told() -> None:
    request = GenerateRequest("x", (1, 2, 3), 50, sequence_count=2, beam=BeamParams(3))
    runner = FakeRunner(block_count=200)
    engine = PagedEngine(runner, ServingConfig(), context_length=200)

    def cancel(step: int) -> None:
        if step == 5:
            engine.cancel("x")

    runner.before_step = cancel
    sink = Collector(2)
    engine.submit(request, sink)
    sink.wait()
    engine.close()
    assert {end.reason for end in sink.ends.values()} == {"cancelled"}
    assert [len(sink.streams[index]) for index in (0, 1)] == [5, 5]
    assert engine.stats().blocks_used == 0


def test_bad_words_and_penalties_hold_in_beams_too() -> None:
    plain = GenerateRequest("x", (1, 2, 3), 6, sequence_count=3, beam=BeamParams(3))
    first = generate([plain], FakeRunner(block_count=200))[0].streams
    worst = first[0][0]
    banned = replace(plain, sampling=replace(plain.sampling, bad_words=((worst,),)))
    streams = generate([banned], FakeRunner(block_count=200))[0].streams
    assert all(worst not in stream for stream in streams.values())
    assert pytest.approx(len(streams)) == 3
