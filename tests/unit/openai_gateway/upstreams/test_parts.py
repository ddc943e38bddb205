"""The parts of the upstream, each by itself."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openai_gateway.metrics import MOST_TENANTS, GatewayMetrics
from openai_gateway.upstreams.address import parse_address
from openai_gateway.upstreams.breaker import Breaker
from openai_gateway.upstreams.choice import choose
from openai_gateway.upstreams.seeds import seeded
from openai_gateway.upstreams.versions import parse_weights, pick
from python_llm.errors import CallerMistake
from triton_llm_client import GenerateParams


@pytest.mark.parametrize(
    ("text", "url", "health"),
    [
        ("10.0.0.1:8001,8003", "grpc://10.0.0.1:8001", "http://10.0.0.1:8003/ready"),
        ("grpcs://triton:8001", "grpcs://triton:8001", ""),
        ("[::1]:8001,8003", "grpc://[::1]:8001", "http://[::1]:8003/ready"),
        ("a:1,b:2", "grpc://a:1", "http://b:2/ready"),
        ("a:1,https://b/ready", "grpc://a:1", "https://b/ready"),
    ],
)
def test_an_upstream_as_people_write_it(text: str, url: str, health: str) -> None:
    address = parse_address(text)
    assert (address.url, address.health) == (url, health)


@pytest.mark.parametrize("text", ["", "host", "host:", "host:0", "host:99999", "http://host:1", "host:1,x:y"])
def test_what_is_no_upstream_is_refused(text: str) -> None:
    with pytest.raises(CallerMistake, match="host:port"):
        parse_address(text)


def test_a_name_takes_the_place_of_its_addresses_in_both_urls() -> None:
    found = parse_address("triton:8001,8003").at("10.0.0.7")
    assert (found.url, found.health) == ("grpc://10.0.0.7:8001", "http://10.0.0.7:8003/ready")


def test_the_breaker_opens_after_failures_in_a_row_and_one_attempt_decides() -> None:
    states: list[str] = []
    breaker = Breaker(2, 0.0, states.append)
    for outcome in (False, True, False, False):
        attempt = breaker.attempt()
        attempt.succeeded() if outcome else attempt.failed(OSError("x"))
        attempt.close()
    assert states == ["open"]
    trial = breaker.attempt()
    assert not breaker.admits
    trial.failed(OSError("x"))
    assert breaker.state == "open"
    trial = breaker.attempt()
    trial.succeeded()
    assert (breaker.state, states) == ("closed", ["open", "half-open", "open", "half-open", "closed"])


def test_an_open_breaker_admits_nothing_before_its_time_and_old_attempts_say_nothing() -> None:
    breaker = Breaker(1, 3600.0, lambda state: None)
    old = breaker.attempt()
    breaker.attempt().failed(OSError("x"))
    assert not breaker.admits
    old.succeeded()
    assert breaker.state == "open"


def test_a_trial_that_was_left_says_nothing_and_the_next_may_try() -> None:
    breaker = Breaker(1, 0.0, lambda state: None)
    breaker.attempt().failed(OSError("x"))
    breaker.attempt().close()
    assert breaker.admits
    assert breaker.state == "half-open"


@dataclass
class Loaded:
    name: str
    load: float


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=8), st.floats(1, 1e4), st.text(max_size=8), st.integers(0, 99))
def test_a_server_beyond_the_bound_is_never_chosen(loads: list[float], work: float, prefix: str, seed: int) -> None:
    servers = [Loaded(str(number), load) for number, load in enumerate(loads)]
    chosen = choose(servers, work, prefix, 1.25, random.Random(seed))
    if prefix:
        assert chosen.load <= 1.25 * sum(loads) / len(loads) + work
    elif len(servers) > 1:
        assert chosen.load < max(loads) or loads.count(max(loads)) > 1


def test_a_prefix_stays_with_its_server_when_another_comes_or_goes() -> None:
    def home(names: str) -> dict[str, str]:
        servers = [Loaded(name, 0) for name in names]
        return {p: choose(servers, 1, p, 1.25, random.Random(0)).name for p in map(str, range(1, 400))}

    before, after = home("abcd"), home("abcde")
    moved = [prefix for prefix in before if before[prefix] != after[prefix]]
    assert {after[prefix] for prefix in moved} == {"e"}
    assert 0 < len(moved) < 160
    assert min(Counter(before.values()).values()) > 50


def test_weights_share_requests_and_leave_out_what_is_not_ready() -> None:
    model, weights = parse_weights("smollm2=1:90,2:10")
    ids = [f"request-{number}" for number in range(1000)]
    shares = Counter(pick(weights, {"1", "2"}, each) for each in ids)
    assert model == "smollm2"
    assert 60 < shares["2"] < 140
    assert {pick(weights, {"1"}, each) for each in ids} == {"1"}
    assert pick(weights, set(), "r") == ""
    assert pick(weights, {"1", "2"}, "same") == pick(weights, {"1", "2"}, "same")


@pytest.mark.parametrize("text", ["", "m", "m=", "m=1", "m=x:1", "m=1:much"])
def test_weights_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(CallerMistake, match="VERSION:SHARE"):
        parse_weights(text)


def test_a_request_has_a_seed_and_keeps_its_own() -> None:
    assert seeded(GenerateParams(seed=5)).seed == 5
    drawn = {seeded(GenerateParams()).seed for _ in range(20)}
    assert len(drawn) == 20
    assert all(seed is not None and seed < 2**53 for seed in drawn)
    assert seeded(GenerateParams(sampling_parameters={"seed": 1})).seed is None
    assert seeded(GenerateParams(more={"random_seed": 1})).seed is None


def test_labels_are_bounded() -> None:
    metrics = GatewayMetrics()
    metrics.know_models(["m"])
    for number in range(MOST_TENANTS + 50):
        metrics.used(f"tenant{number}", 1, 2)
        metrics.ended(f"invented{number}", "length", 0.1)
    metrics.ended("m", "length", 0.1)
    text = metrics.render().decode()
    assert 'tokens_total{kind="prompt",tenant="other"} 50.0' in text
    assert 'requests_total{model="other",outcome="length"} 150.0' in text
    assert 'requests_total{model="m",outcome="length"} 1.0' in text
    assert "invented" not in text
