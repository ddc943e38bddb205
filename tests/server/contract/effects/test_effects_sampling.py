"""How the next token is chosen: seeds, temperature, top_k, top_p, min_p."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import pytest

from server_under_test import ServerUnderTest
from triton_llm_client import Client, Completion, GenerateParams

Ask = Callable[..., Completion]
STORY = "Once upon a time there was"
TOLD = {"max_tokens": 24, "ignore_eos": True, "return_log_probs": True, "top_log_probs": 20}


def test_a_seed_repeats_and_its_absence_varies(ask: Ask) -> None:
    hot = {"max_tokens": 12, "temperature": 1.0}
    assert ask(STORY, seed=7, **hot).text == ask(STORY, seed=7, **hot).text
    assert ask(STORY, seed=7, **hot).text != ask(STORY, seed=8, **hot).text
    fresh = [ask(STORY, **hot) for _ in range(4)]
    assert len({answer.seed for answer in fresh}) == 4
    assert len({answer.text for answer in fresh}) > 1
    assert ask(STORY, seed=fresh[0].seed, **hot).text == fresh[0].text


@pytest.mark.parametrize(
    "greedy", [{"temperature": 0.0}, {"top_k": 1, "temperature": 1.0}, {"top_p": 0.0, "temperature": 1.0}]
)
def test_three_ways_to_say_greedy(ask: Ask, greedy: dict[str, float]) -> None:
    answer = ask(STORY, **greedy, **TOLD)
    assert answer.text == ask(STORY, max_tokens=24, ignore_eos=True).text
    assert [top[0].id for top in answer.top_log_probs] == list(answer.output_ids)


def test_temperature_flattens(ask: Ask) -> None:
    sums = [sum(ask(STORY, temperature=heat, seed=3, **TOLD).log_probs) for heat in (0.1, 1.0, 3.0)]
    assert sums == sorted(sums, reverse=True)


@pytest.mark.parametrize("k", [2, 5])
def test_top_k_keeps_to_the_k_likeliest(ask: Ask, k: int) -> None:
    answer = ask(STORY, top_k=k, temperature=5.0, seed=3, **TOLD)
    for token, top in zip(answer.output_ids, answer.top_log_probs, strict=True):
        assert token in {one.id for one in top[:k]}
    assert any(token != top[0].id for token, top in zip(answer.output_ids, answer.top_log_probs, strict=True))


def test_top_p_keeps_to_the_nucleus(ask: Ask) -> None:
    answer = ask(STORY, top_p=0.5, temperature=1.0, seed=3, **TOLD)
    for token, top in zip(answer.output_ids, answer.top_log_probs, strict=True):
        place = [one.id for one in top].index(token)
        assert sum(math.exp(one.log_prob) for one in top[:place]) < 0.5 + 1e-4


def test_min_p_drops_what_is_less_likely_than_its_share(ask: Ask) -> None:
    answer = ask(STORY, min_p=0.2, temperature=1.0, seed=3, **TOLD)
    for value, top in zip(answer.log_probs, answer.top_log_probs, strict=True):
        assert value >= top[0].log_prob + math.log(0.2) - 1e-4
    wild = ask(STORY, temperature=1.0, seed=3, **TOLD)
    assert any(
        value < top[0].log_prob + math.log(0.2) for value, top in zip(wild.log_probs, wild.top_log_probs, strict=True)
    )


def test_a_greedy_neighbour_never_changes_a_sampled_requests_noise(exact: Ask, server: ServerUnderTest) -> None:
    hot = {"max_tokens": 32, "temperature": 1.0, "seed": 11, "ignore_eos": True}
    alone = exact("The ferry left", **hot)
    with Client(server.grpc_url, model="tiny") as neighbours:
        calm = GenerateParams(max_tokens=400, ignore_eos=True)
        begun = threading.Event()
        threads = [
            threading.Thread(
                target=neighbours.generate, args=(f"Number {n}", calm), kwargs={"on_chunk": lambda _: begun.set()}
            )
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        assert begun.wait(60)
        beside = [exact("The ferry left", **hot) for _ in range(3)]
        for thread in threads:
            thread.join()
    assert [answer.output_ids for answer in beside] == [alone.output_ids] * 3
