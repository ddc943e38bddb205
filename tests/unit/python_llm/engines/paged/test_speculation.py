"""Guesses change how many steps an answer takes, and nothing of the answer."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import Collector
from echo_artifact import make_echo_artifact
from fake_runner import FakeRunner
from python_llm.artifact import Artifact
from python_llm.engine import GenerateRequest, SamplingParams
from python_llm.engines.paged.draft_model import DraftModel
from python_llm.engines.paged.engine import PagedEngine
from python_llm.engines.paged.prompt_lookup import PromptLookup
from python_llm.engines.paged.runner import ForwardBatch
from python_llm.engines.paged.sequence import Sequence
from python_llm.engines.paged.speculation import Proposer, Speculation, StepCost
from python_llm.errors import CallerMistake
from python_llm.settings import ServingConfig
from tests.unit.python_llm.engines.paged.test_paged_engine import FixedPrice, Guesser

PLAIN = GenerateRequest("plain", (1, 2, 3), 40)


def run(proposer: Proposer | None, *requests: GenerateRequest, **serving: int) -> tuple[list[Collector], int]:
    """The answers, and how many steps they took."""
    runner = FakeRunner(block_count=200)
    speculation = Speculation(proposer, FixedPrice(0.1))
    engine = PagedEngine(runner, ServingConfig(**serving), context_length=200, speculation=speculation)  # type: ignore[arg-type]
    sinks = [Collector(request.sequence_count) for request in requests]
    for request, sink in zip(requests, sinks, strict=True):
        engine.submit(request, sink)
    for sink in sinks:
        sink.finished()
    engine.close()
    assert engine.stats().blocks_used == 0
    return sinks, runner.steps


def sequence_of(tokens: list[int]) -> Sequence:
    return Sequence(GenerateRequest("x", tuple(tokens), 100), lambda event: None, 0)


def test_right_guesses_save_steps() -> None:
    (plain,), slow = run(None, PLAIN)
    (guessed,), fast = run(Guesser(1000), PLAIN)
    assert guessed.ids == plain.ids
    assert fast < slow / 3
    usage = guessed.finished().usage
    assert 0 < usage.drafts_accepted <= usage.drafts_proposed


def test_wrong_guesses_stop_being_made() -> None:
    (plain,), slow = run(None, PLAIN)
    (guessed,), steps = run(Guesser(1), PLAIN)  # every guess is 7
    assert guessed.ids == plain.ids
    assert steps <= slow
    assert guessed.finished().usage.drafts_proposed <= 2 * 16


def test_log_probs_and_ends_come_with_accepted_guesses() -> None:
    request = replace(PLAIN, log_probs=True, top_log_probs=2)
    (plain,), _ = run(None, request)
    (guessed,), _ = run(Guesser(5), request)
    assert guessed.log_probs[0] == pytest.approx(plain.log_probs[0])
    assert guessed.top_log_probs[0] == plain.top_log_probs[0]
    stop = replace(PLAIN, end_ids=frozenset({plain.ids[11]}))
    assert run(Guesser(1000), stop)[0][0].ids == run(None, stop)[0][0].ids


def test_sampled_answers_have_the_right_distribution() -> None:
    """Guessed or not, the very same tokens for every seed: so is their distribution."""
    requests = [
        replace(PLAIN, request_id=str(seed), max_tokens=10, sampling=SamplingParams(temperature=1.0, seed=seed))
        for seed in range(40)
    ]
    plain, _ = run(None, *requests, max_running=8)
    guessed, _ = run(Guesser(1000), *requests, max_running=8)
    assert [sink.ids for sink in guessed] == [sink.ids for sink in plain]
    assert len({tuple(sink.ids) for sink in plain}) > 30
    assert sum(sink.finished().usage.drafts_proposed for sink in guessed) > 40


def test_several_sequences_are_guessed_for_apart() -> None:
    request = replace(PLAIN, sequence_count=3, sampling=SamplingParams(temperature=0.8, seed=3))
    (plain,), _ = run(None, request)
    (guessed,), _ = run(Guesser(7), request)
    assert guessed.streams == plain.streams


def test_lookup_finds_what_followed_before() -> None:
    lookup = PromptLookup()
    copying = sequence_of([5, 6, 7, 8, 9, 10, 1, 2, 5, 6])
    assert lookup.propose({copying: 3}) == {copying: [7, 8, 9]}
    copying.tokens.append(7)
    assert lookup.propose({copying: 2}) == {copying: [8, 9]}
    new = sequence_of([1, 2, 3, 4])
    assert lookup.propose({new: 3}) == {new: []}
    lookup.forget(copying)
    lookup.forget(sequence_of([1]))


def test_lookup_goes_on_with_what_repeats() -> None:
    sequence = sequence_of([9, 1, 2, 1, 2, 1, 2])
    assert PromptLookup().propose({sequence: 5}) == {sequence: [1, 2, 1, 2, 1]}


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60), st.integers(1, 8))
def test_lookup_tells_only_what_did_follow(tokens: list[int], count: int) -> None:
    sequence, lookup = sequence_of(tokens[:1]), PromptLookup()
    for token in tokens[1:]:
        sequence.tokens.append(token)
        (guess,) = lookup.propose({sequence: count}).values()
        assert len(guess) in (0, count)
        if guess:
            tail = sequence.tokens[-2:]
            pairs = [sequence.tokens[i : i + 3] for i in range(len(sequence.tokens) - 2)]
            assert [*tail, guess[0]] in pairs


def test_the_price_of_a_token_is_learned() -> None:
    cheap, dear = StepCost(), StepCost()
    for tokens in [1, 2, 5, 3, 8, 1, 16, 4] * 5:
        cheap.learn(tokens, 0.010 + 0.0001 * tokens)
        dear.learn(tokens, 0.0001 + 0.010 * tokens)
    assert cheap.price(1) == pytest.approx(0.0001 / 0.0101, rel=0.05)
    assert dear.price(1) == pytest.approx(0.99, rel=0.05)
    assert cheap.price(64) > 5 * cheap.price(1)
    assert StepCost().price(1) == 0.2


def test_what_does_not_pay_is_not_guessed() -> None:
    speculation = Speculation(Guesser(1000))
    for tokens in (1, 2, 4, 8, 16) * 10:
        speculation.learn_step(tokens, 0.01 * tokens)  # a token more costs as much as a token
    sequence = sequence_of([1, 2, 3])
    sequence.last_draft = 3
    assert speculation.drafts({sequence: 8}, batch=1, budget=100) == {}
    sequence.tokens.extend([1] * 32)
    assert {s: len(ids) for s, ids in speculation.drafts({sequence: 8}, batch=1, budget=100).items()} == {sequence: 1}
    assert speculation.drafts({sequence: 8}, batch=1, budget=0) == {}
    assert Speculation(None).drafts({sequence: 8}, batch=1, budget=100) == {}


def test_a_draft_model_that_is_the_model_guesses_right() -> None:
    requests = [replace(PLAIN, request_id=str(n), prompt_ids=tuple(range(n, n + 9))) for n in range(4)]
    plain, slow = run(None, *requests)
    draft = FakeRunner(block_count=200)
    guessed, fast = run(DraftModel(draft, max_num_tokens=16), *requests)
    assert [sink.ids for sink in guessed] == [sink.ids for sink in plain]
    assert fast < slow / 2
    assert draft.most_tokens <= 16
    for sink in guessed:
        usage = sink.finished().usage
        assert usage.drafts_accepted == usage.drafts_proposed > 20


class Forgetful(FakeRunner):
    """Another model: it agrees with the first now and then."""

    def _logits(self, batch: ForwardBatch, row: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        logits = super()._logits(batch, row)
        return np.roll(logits, 1) if int(batch.positions[row]) % 3 == 0 else logits


@pytest.mark.parametrize("blocks", [6, 14, 200])
def test_a_draft_model_that_errs_and_lacks_memory_changes_nothing(blocks: int) -> None:
    requests = [
        replace(
            PLAIN, request_id=str(n), prompt_ids=tuple(range(n + 1)), sampling=SamplingParams(temperature=n / 9, seed=n)
        )
        for n in range(6)
    ]
    plain, _ = run(None, *requests)
    draft = Forgetful(block_count=blocks)
    engine = DraftModel(draft, max_num_tokens=16)
    guessed, _ = run(engine, *requests)
    assert [sink.ids for sink in guessed] == [sink.ids for sink in plain]
    assert engine._pool.used_count == 0
    assert not engine._shadows


def test_a_draft_artifact_of_another_kind_or_tokenizer_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    from python_llm.engines.paged.openvino_engine import make_proposer

    artifact = Artifact.open(make_echo_artifact(tmp_path / "model", checkpoint))
    same = make_echo_artifact(tmp_path / "same", checkpoint)
    file = tmp_path / "other" / "tokenizer.json"
    shutil.copytree(checkpoint, file.parent)
    words = json.loads(file.read_text("utf-8"))
    words["model"]["vocab"]["zzz"] = 511
    file.write_text(json.dumps(words), "utf-8")
    other = make_echo_artifact(tmp_path / "others", file.parent)
    serving = ServingConfig(speculation="draft_model", draft_artifact=str(other))
    with pytest.raises(CallerMistake, match="with the tokenizer of"):
        make_proposer(artifact, serving)
    assert make_proposer(artifact, ServingConfig()) is None
    assert isinstance(make_proposer(artifact, ServingConfig(speculation="prompt_lookup")), PromptLookup)
    with pytest.raises(CallerMistake, match="nothing"):
        make_proposer(artifact, replace(serving, draft_artifact=str(same.parent / "nothing")))
