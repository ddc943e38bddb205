"""Models that are unloaded and loaded under traffic: what runs finishes, what comes is told, the service is back."""

from __future__ import annotations

import os
import signal

from build_engines.live_server import LiveServer
from python_llm.contract import role_model
from server_under_test import ServerUnderTest
from tests.soak.chaos import BackgroundLoad
from tests.soak.plan import Plan, Route
from tests.soak.served import Served
from tests.soak.verdict import reasons
from tests.soak.wire import Ending

ROUTES: tuple[Route, ...] = ("generator", "unary")
WAIT_SECONDS = 60.0  # an unload that takes longer never ends
AWAY = ("not_loaded", "unknown model", "not ready", "no available", "stopped accepting")


def test_unload_and_load_under_traffic_ends_every_request_once(victim: Served) -> None:
    server, name = victim.server, victim.name
    start_afresh(server)  # the tests before had clients that left: Triton's count of them never ends
    first, restarts = server.tritonserver(), server.ready()[1]["restarts"]
    models = [*(role_model(name, role) for role in ("tokenizer", "generator", "detokenizer", "unary")), name]
    control = LiveServer(server.http_url)
    load = BackgroundLoad(victim, seed=77, routes=ROUTES, change=Plan.stays)
    load.await_answers(40)
    stuck = control.unload(reversed(models), WAIT_SECONDS)
    if stuck:  # Triton lost count all the same: the models are told as such, and a restart is the remedy
        assert set(stuck.values()) == {"UNLOADING"}, stuck
        start_afresh(server)
    else:
        server.wait_until(lambda: server.ready()[1]["models"].get(models[1]) != "READY", "/ready to say it is unloaded")
    control.load(models, WAIT_SECONDS)  # what was unloaded stays so until it is asked for, over a restart too
    load.await_answers(40)
    endings = load.finish()
    print(f"stuck: {stuck}; {reasons(endings)}")
    assert not [ending for ending in endings if not ending.left and ending.ends != 1]
    server.wait_until(server.is_ready, "/ready")
    victim.wait_until_idle()
    if not stuck:
        assert not strange(endings)
        assert (server.tritonserver(), server.ready()[1]["restarts"]) == (first, restarts)


def start_afresh(server: ServerUnderTest) -> None:
    old = server.tritonserver()
    os.kill(old, signal.SIGKILL)
    server.wait_until(lambda: server.tritonserver() not in (0, old) and server.is_ready(), "the service back")


def strange(endings: list[Ending]) -> list[str]:
    """Errors of sound requests that do not say that the model is not there."""
    said = {ending.errors[0] for ending in endings if ending.errors and not ending.plan.malformed}
    return [text for text in said if not any(word in text for word in AWAY)]
