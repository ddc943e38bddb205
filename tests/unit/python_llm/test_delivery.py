"""Delivery over a clock that only a handled response moves."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from python_llm.admission import Admitted
from python_llm.delivery import Delivery
from python_llm.engine import Event, Finished, GenerateRequest, Sink, Tokens, Usage
from python_llm.errors import ServeError
from python_llm.session import Session
from python_llm.stop_words import StopWords
from python_llm.tokenizer import Tokenizer

SECONDS_A_RESPONSE = 1 / 64  # sums of it are exact, and some of them are shorter than the longest wait


class NoReply:
    """A reply nobody reads: these tests look at what reaches the handler."""

    def send(self, outputs: Mapping[str, Any], *, final: bool) -> None:
        raise AssertionError

    def fail(self, error: ServeError) -> None:
        raise AssertionError

    def is_cancelled(self) -> bool:
        return False


class Sessions:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def open(self, number: int, *, begun: bool) -> Session:
        request = GenerateRequest(str(number), (1,), 100)
        admitted = Admitted(request, StopWords([]), True, 0.0)
        made = Session(str(number), admitted, NoReply(), self._tokenizer.token_bytes)
        made.begun = begun
        return made


@pytest.fixture(scope="module")
def sessions(tokenizer: Tokenizer) -> Sessions:
    return Sessions(tokenizer)


class Desk:
    """Handles responses, each of which takes some time on a clock that nothing else moves."""

    def __init__(self, share: float, gate: Session) -> None:
        self.now = 0.0
        self.handled: list[tuple[str, list[int]]] = []
        self._changed = threading.Condition()
        self._gate = gate
        self._open, self._arrived = threading.Event(), threading.Event()
        self.delivery = Delivery(self._handle, share=share, clock=lambda: self.now)

    def _handle(self, of: Session, events: list[Event]) -> None:
        if of is self._gate:
            self._arrived.set()
            assert self._open.wait(30)
            return
        ids = [token_id for event in events if isinstance(event, Tokens) for token_id in event.ids]
        with self._changed:
            self.now += SECONDS_A_RESPONSE
            self.handled.append((of.caller_id, ids))
            self._changed.notify_all()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is handled inside the block, and what was put before is done: what is put meanwhile is one round."""
        gate = self.delivery.sink(self._gate)
        self._open.clear()
        gate(token(-1))
        assert self._arrived.wait(30)
        try:
            yield
        finally:
            self._arrived.clear()
            self._open.set()

    def await_count(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.handled) >= count, 30)


def token(number: int) -> Tokens:
    return Tokens(0, (number,))


def test_with_a_full_share_every_token_goes_out_alone(sessions: Sessions) -> None:
    desk = Desk(share=1.0, gate=sessions.open(-1, begun=False))
    sink = desk.delivery.sink(sessions.open(1, begun=True))
    for number in range(5):
        sink(token(number))
        desk.await_count(number + 1)
    desk.delivery.close()
    assert desk.handled == [("1", [number]) for number in range(5)]


def three_streams(desk: Desk, sessions: Sessions) -> list[Sink]:
    """Three begun streams, each of which was just sent its token 0."""
    sinks = [desk.delivery.sink(sessions.open(number, begun=True)) for number in range(3)]
    with desk.held():
        for sink in sinks:
            sink(token(0))
    desk.await_count(3)
    return sinks


def test_one_stream_gets_every_token_alone_whatever_the_share(sessions: Sessions) -> None:
    desk = Desk(share=0.001, gate=sessions.open(-1, begun=False))
    sink = desk.delivery.sink(sessions.open(1, begun=True))
    for number in range(5):
        sink(token(number))
        desk.await_count(number + 1)
    desk.delivery.close()
    assert desk.handled == [("1", [number]) for number in range(5)]


def test_beyond_the_share_tokens_go_out_together(sessions: Sessions) -> None:
    desk = Desk(share=0.5, gate=sessions.open(-1, begun=False))
    sinks = three_streams(desk, sessions)  # the next round is due as much later as these three took
    for number in (1, 2):
        sinks[0](token(number))
    with desk.held():
        assert len(desk.handled) == 3
        desk.now += 3 * SECONDS_A_RESPONSE
        sinks[0](token(3))
    desk.await_count(4)
    desk.delivery.close()
    assert desk.handled[3:] == [("0", [1, 2, 3])]


def test_first_tokens_and_ends_do_not_wait(sessions: Sessions) -> None:
    desk = Desk(share=0.001, gate=sessions.open(-1, begun=False))
    busy, *_ = three_streams(desk, sessions)  # the next round is due after the longest wait
    fresh = desk.delivery.sink(sessions.open(7, begun=False))
    fresh(token(7))
    desk.await_count(4)
    busy(token(8))
    with desk.held():
        assert len(desk.handled) == 4
        busy(Finished(0, "length", Usage(1, 2)))
    desk.await_count(5)
    assert desk.handled[3:] == [("7", [7]), ("0", [8])]
    desk.delivery.close()


def test_close_delivers_what_waits(sessions: Sessions) -> None:
    desk = Desk(share=0.001, gate=sessions.open(-1, begun=False))
    sinks = three_streams(desk, sessions)
    sinks[1](token(1))
    with desk.held():
        assert len(desk.handled) == 3
    desk.delivery.close()
    assert desk.handled[3:] == [("1", [1])]
