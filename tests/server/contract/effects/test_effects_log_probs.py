"""Log-probs are the model's: of the answer, of the alternatives, of the prompt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triton_llm_client import Completion

Ask = Callable[..., Completion]
FRANCE = "The capital of France is"
TOLD = {"return_log_probs": True, "top_log_probs": 5, "ignore_eos": True, "max_tokens": 16}
# What INT8 weights, activations quantised on the fly and a u8 cache may change, in nats: loose, of 100 tokens.
MEAN, MOST = 0.25, 2.0
EXACT = 2e-3  # in fp32
PROMPT: dict[str, Any] = {"max_tokens": 0, "return_prompt_log_probs": True}


def test_alternatives_are_sorted_and_the_sum_is_the_sum(ask: Ask) -> None:
    answer = ask(FRANCE, return_logprobs=True, temperature=1.0, seed=3, **TOLD)
    (choice,) = answer.choices
    assert len(choice.log_probs) == len(choice.top_log_probs) == len(choice.tokens) == 16
    for token, value, top in zip(choice.output_ids, choice.log_probs, choice.top_log_probs, strict=True):
        told = [one.log_prob for one in top]
        assert len({one.id for one in top}) == 5
        assert told == sorted(told, reverse=True)
        assert token not in {one.id for one in top} or value in [pytest.approx(one) for one in told]
    assert choice.log_prob_sum == pytest.approx(sum(choice.log_probs), abs=1e-3)
    assert "".join(token.text for token in choice.tokens) == choice.text


def test_sampling_does_not_change_what_is_told(ask: Ask) -> None:
    plain = ask(FRANCE, **TOLD)
    biased = ask(FRANCE, logit_bias={plain.output_ids[0]: 50}, temperature=0.5, seed=1, **TOLD)
    assert biased.output_ids[0] == plain.output_ids[0]
    assert biased.log_probs[0] == pytest.approx(plain.log_probs[0], abs=1e-3)


def test_a_streamed_answer_tells_the_same(ask: Ask, client: Any) -> None:
    from triton_llm_client import GenerateParams

    whole = ask(FRANCE, **TOLD)
    chunks = list(client.stream(FRANCE, GenerateParams(**TOLD)))  # type: ignore[arg-type]
    assert [len(chunk.log_probs) for chunk in chunks] == [len(chunk.output_ids) for chunk in chunks]
    told = [value for chunk in chunks for value in chunk.log_probs]
    assert told == pytest.approx(list(whole.log_probs), abs=0.2)


def test_the_prompts_are_the_checkpoints_within_the_bound(ask: Ask) -> None:
    source = json.loads(Path(__file__).with_name("source_log_probs.json").read_text("utf-8"))
    told = ask(source["ids"], top_log_probs=3, **PROMPT)
    assert (told.text, told.finish_reason, told.output_tokens) == ("", "length", 0)
    errors = [abs(one - other) for one, other in zip(told.prompt_log_probs, source["log_probs"], strict=True)]
    print(f"mean {sum(errors) / len(errors):.3f}, most {max(errors):.3f} of {len(errors)}")
    assert sum(errors) / len(errors) <= MEAN
    assert max(errors) <= MOST
    for top in told.prompt_top_log_probs:
        assert [one.log_prob for one in top] == sorted((one.log_prob for one in top), reverse=True)


def test_the_prompts_are_those_of_the_same_tokens_when_they_were_generated(exact: Ask, ask: Ask) -> None:
    for of, bound in ((exact, EXACT), (ask, 0.5)):
        prompt = [5, 60, 70, 80]
        answer = of(prompt, **TOLD)
        again = of([*prompt, *answer.output_ids], **PROMPT)
        assert again.prompt_log_probs[len(prompt) - 1 :] == pytest.approx(answer.log_probs, abs=bound)


def test_in_fp32_they_are_the_checkpoints(exact: Ask, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from tiny_checkpoint import make_tiny_checkpoint

    model = AutoModelForCausalLM.from_pretrained(make_tiny_checkpoint(tmp_path / "tiny"))
    answer = exact([5, 60, 70, 80], return_prompt_log_probs=True, **TOLD)
    ids = [5, 60, 70, 80, *answer.output_ids]
    with torch.no_grad():
        table = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    expected = [float(table[place, token]) for place, token in enumerate(ids[1:])]
    assert [*answer.prompt_log_probs, *answer.log_probs] == pytest.approx(expected, abs=EXACT)
    for place, top in enumerate(answer.top_log_probs, start=3):
        best = table[place].topk(5)
        assert [one.log_prob for one in top] == pytest.approx(best.values.tolist(), abs=EXACT)
