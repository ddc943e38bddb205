"""Each process of a served model is killed or stopped once, under a load of every kind through every route."""

from __future__ import annotations

import pytest

from tests.soak.chaos import EVENTS, strike
from tests.soak.served import Served


@pytest.mark.parametrize("name", EVENTS)
def test_every_client_gets_an_end_and_the_service_is_back(victim: Served, name: str) -> None:
    print(f"{name}: {strike(victim, EVENTS[name], seed=list(EVENTS).index(name))}")
