"""What a caller has used of its limits, and whether more fits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from openai_gateway.protection.refusals import OverLimit, QuotaSpent
from openai_gateway.protection.settings import Limits
from openai_gateway.protection.window import Slot, Window
from python_llm.errors import InvalidRequest

__all__ = ["Account", "Book"]

_MINUTE, _DAY = 60.0, 86_400.0
_PER = {_MINUTE: "a minute", _DAY: "a day"}


@dataclass(frozen=True, slots=True)
class _Reserved:
    tokens: int
    slots: tuple[tuple[Window, Slot], ...]


class Account:
    """One caller's. Use it on the event loop alone. ``name``: for messages, as ``key 'alice'``."""

    def __init__(self, name: str, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.running = 0
        self._name, self._clock = name, clock
        self._requests = Window(limits.requests_per_minute, _MINUTE) if limits.requests_per_minute else None
        self._minute = Window(limits.tokens_per_minute, _MINUTE) if limits.tokens_per_minute else None
        self._day = Window(limits.tokens_per_day, _DAY) if limits.tokens_per_day else None

    def enter(self) -> None:
        """Count a request in; `leave` when it is over. Raises OverLimit."""
        most = self.limits.max_running
        if most and self.running >= most:
            raise OverLimit(f"{self._name}: {self.running} requests are running, and {most} are its limit", 1)
        now = self._clock()
        for window, kind in ((self._minute, OverLimit), (self._day, QuotaSpent)):
            if window is not None and (wait := window.wait(1, now)):
                raise kind(self._tokens_are_spent(window, now), wait)
        if self._requests is not None:
            if wait := self._requests.wait(1, now):
                raise OverLimit(f"{self._name}: {self._requests.limit} requests a minute are its limit", wait)
            self._requests.take(1, now)
        self.running += 1

    def leave(self) -> None:
        self.running -= 1

    def reserve(self, tokens: int) -> _Reserved:
        """See Allowance.

        Raises:
            InvalidRequest: more than the limit: it will never fit.
            OverLimit: not now.
        """
        now = self._clock()
        windows = [window for window in (self._minute, self._day) if window is not None]
        for window in windows:
            if tokens > window.limit:
                raise InvalidRequest(
                    "request_over_limit",
                    f"max_tokens: with its prompt the request may take about {tokens} tokens, and {window.limit} "
                    f"{_PER[window.seconds]} are the limit of {self._name}; ask for fewer, or send a shorter prompt.",
                )
        for window in windows:
            if wait := window.wait(tokens, now):
                kind = QuotaSpent if window is self._day else OverLimit
                raise kind(f"{self._tokens_are_spent(window, now)}, the request may take about {tokens}", wait)
        return _Reserved(tokens, tuple((window, window.take(tokens, now)) for window in windows))

    def settle(self, reserved: object, tokens: int) -> None:
        assert isinstance(reserved, _Reserved)
        for window, slot in reserved.slots:
            window.correct(slot, tokens - reserved.tokens, self._clock())

    def headers(self) -> dict[str, str]:
        """OpenAI's ``x-ratelimit-*``; of tokens those of the minute, or else of the day."""
        now, said = self._clock(), {}
        for what, window in (("requests", self._requests), ("tokens", self._minute or self._day)):
            if window is not None:
                said[f"x-ratelimit-limit-{what}"] = str(window.limit)
                said[f"x-ratelimit-remaining-{what}"] = str(window.left(now))
                said[f"x-ratelimit-reset-{what}"] = _duration(window.wait(window.limit, now))
        return said

    def _tokens_are_spent(self, window: Window, now: float) -> str:
        return f"{self._name}: {window.spent(now)} of its {window.limit} tokens {_PER[window.seconds]} are spent"


class Book:
    """The accounts, by name of the key; one whose limits changed begins anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts: dict[str, Account] = {}

    def account(self, key_id: str, limits: Limits) -> Account:
        account = self._accounts.get(key_id)
        if account is None or account.limits != limits:
            fresh = Account(f"key '{key_id}'" if key_id else "callers without a key", limits, self._clock)
            self._accounts[key_id] = account = fresh
        return account


def _duration(seconds: float) -> str:
    """As OpenAI writes it: ``0s``, ``59s``, ``1m0s``, ``23h59m1s``."""
    whole = math.ceil(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{f'{hours}h' if hours else ''}{f'{minutes}m' if hours or minutes else ''}{whole % 60}s"
