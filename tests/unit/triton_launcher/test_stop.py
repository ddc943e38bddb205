from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from triton_launcher.stop import Stop


@pytest.fixture
def stop() -> Iterator[Stop]:
    stop = Stop()
    yield stop
    stop.close()


def test_the_first_signal_asks_and_the_second_hastens(stop: Stop) -> None:
    with stop.on_signals():
        assert not stop.requested.wait(0.0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested.wait(30.0)
        assert not stop.hastened.wait(0.0)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.hastened.wait(30.0)
        os.kill(os.getpid(), signal.SIGHUP)  # a third changes nothing


def test_under_nohup_a_closed_terminal_changes_nothing(stop: Stop) -> None:
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop.on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested.wait(0.0)
    finally:
        signal.signal(signal.SIGHUP, old)


def test_the_old_handlers_come_back(stop: Stop) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop.on_signals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
