"""Hundreds of requests of every kind at once: each ends once, nothing is kept, and no text is another's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.soak.load import run_load
from tests.soak.plan import Plan, Route, mixed_plans
from tests.soak.served import Served
from tests.soak.verdict import alone, differing, not_once, reasons
from tests.soak.wire import Ending

IN_FLIGHT = 64
SEED = 20_261_130


def assert_as_alone(served: Served, plans: Sequence[Plan], endings: Sequence[Ending]) -> None:
    """Up to near-ties, which are shown, and of which there are at most 2 in 100."""
    solo = alone(served.url, served.name, plans)
    apart = differing(endings, solo)
    ties = [served.near_ties.is_tie(ending, solo[ending.plan.body], at) for ending, at in apart]
    assert all(ties), [(ending.plan.body, ending.ids, solo[ending.plan.body], at) for ending, at in apart]
    assert len(ties) <= 0.02 * len(endings)


@pytest.mark.parametrize(
    ("count", "routes"), [(300, ("generator", "generator", "unary")), (100, ("ensemble",))], ids=["direct", "ensemble"]
)
def test_every_request_ends_once_and_nothing_is_kept(under_load: Served, count: int, routes: Sequence[Route]) -> None:
    first, stubs = under_load.server.tritonserver(), under_load.server.stubs()
    plans = mixed_plans(SEED, count, routes)
    endings = run_load(under_load.url, under_load.name, plans, in_flight=IN_FLIGHT)
    print(f"{count} through {', '.join(sorted(set(routes)))}: {reasons(endings)}")
    assert len(endings) == count
    assert not not_once(endings)
    under_load.wait_until_idle()
    print(under_load.status()["stats"])
    assert_as_alone(under_load, plans, endings)
    assert (under_load.server.tritonserver(), under_load.server.stubs()) == (first, stubs)
    assert under_load.server.is_ready()
