"""Delivery over a clock that only a handled response moves."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from python_llm.admission import Admitted
from python_llm.delivery import Delivery
from python_llm.engine import Event, Finished, GenerateRequest, Tokens, Usage
from python_llm.errors import ServeError
from python_llm.session import Session
from python_llm.stop_words import StopWords
from python_llm.tokenizer import Tokenizer

SECONDS_A_RESPONSE = 1.0


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
    """Handles responses, each of which takes a second of a clock that nothing else moves."""

    def __init__(self, share: float) -> None:
        self.now = 0.0
        self.handled: list[tuple[str, list[int]]] = []
        self._changed = threading.Condition()
        self.delivery = Delivery(self._handle, share=share, clock=lambda: self.now)

    def _handle(self, of: Session, events: list[Event]) -> None:
        ids = [token_id for event in events if isinstance(event, Tokens) for token_id in event.ids]
        with self._changed:
            self.now += SECONDS_A_RESPONSE
            self.handled.append((of.caller_id, ids))
            self._changed.notify_all()

    def await_count(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.handled) >= count, 30)


def token(number: int) -> Tokens:
    return Tokens(0, (number,))


def test_with_a_full_share_every_token_goes_out_alone(sessions: Sessions) -> None:
    desk = Desk(share=1.0)
    sink = desk.delivery.sink(sessions.open(1, begun=True))
    for number in range(5):
        sink(token(number))
        desk.await_count(number + 1)
    desk.delivery.close()
    assert desk.handled == [("1", [number]) for number in range(5)]


def test_beyond_the_share_tokens_go_out_together(sessions: Sessions) -> None:
    desk = Desk(share=0.1)
    sink = desk.delivery.sink(sessions.open(1, begun=True))
    sink(token(0))
    desk.await_count(1)  # one second of sending: the next round is due nine seconds later
    for number in range(1, 4):
        sink(token(number))
    desk.now += 9.0
    sink(token(4))
    desk.await_count(2)
    desk.delivery.close()
    assert [number for _, ids in desk.handled for number in ids] == [0, 1, 2, 3, 4]
    assert len(desk.handled) <= 3


def test_first_tokens_and_ends_do_not_wait(sessions: Sessions) -> None:
    desk = Desk(share=0.001)  # the round after the first response is due in a thousand seconds
    busy, fresh = desk.delivery.sink(sessions.open(1, begun=True)), desk.delivery.sink(sessions.open(2, begun=False))
    busy(token(0))
    desk.await_count(1)
    fresh(token(7))
    desk.await_count(2)
    busy(token(8))
    busy(Finished(0, "length", Usage(1, 2)))
    desk.await_count(3)
    assert desk.handled == [("1", [0]), ("2", [7]), ("1", [8])]
    desk.delivery.close()


def test_close_delivers_what_waits(sessions: Sessions) -> None:
    desk = Desk(share=0.001)
    sink = desk.delivery.sink(sessions.open(1, begun=True))
    sink(token(0))
    desk.await_count(1)
    sink(token(1))
    desk.delivery.close()
    assert desk.handled == [("1", [0]), ("1", [1])]
