"""API keys as they are stored: a line of JSON each, with the key's hash and what it may do.

A key is 256 random bits, so that nobody can try hashes out: SHA-256 protects it as well as a slow hash would, and a
request costs microseconds.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

from openai_gateway.caller import Caller
from python_llm.errors import CallerMistake

__all__ = ["ADMIN", "API", "METRICS", "SCOPES", "ApiKey", "hash_of", "new_key", "parse_keys"]

API, METRICS, ADMIN = "api", "metrics", "admin"
SCOPES = (API, METRICS, ADMIN)
_PREFIX = "tllm-"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_NUMBERS = ("requests_per_minute", "tokens_per_minute", "tokens_per_day", "max_running")
_MOST_TENANT = 256  # characters, as the generator takes them


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """``tenant`` (absent: the name) and ``priority`` go to the generator. ``models``: empty means all. ``expires``: a
    date, the first day on which it is not taken. Numbers: limits, 0 means none, None the gateway's own.

    Raises:
        CallerMistake: a value that cannot work.
    """

    name: str
    hash: str
    tenant: str = ""
    priority: int = 0
    models: tuple[str, ...] = ()
    scopes: tuple[str, ...] = (API,)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    max_running: int | None = None
    expires: str = ""

    def __post_init__(self) -> None:
        subject = f"key '{self.name}'"
        _require(type(self.name) is str and _NAME.fullmatch(self.name), f"key name '{self.name}'", _NAME.pattern)
        _require(type(self.hash) is str and _HASH.fullmatch(self.hash), f"{subject}: hash", "sha256: and 64 hex digits")
        _require(type(self.tenant) is str and len(self.tenant) <= _MOST_TENANT, f"{subject}: tenant", "a short text")
        _require(type(self.priority) is int and abs(self.priority) < 2**31, f"{subject}: priority", "an integer")
        _require(_are_texts(self.models), f"{subject}: models", "a list of names")
        _require(
            _are_texts(self.scopes) and self.scopes and set(self.scopes) <= set(SCOPES),
            f"{subject}: scopes",
            f"a list of {', '.join(SCOPES)}",
        )
        for number in _NUMBERS:
            value = getattr(self, number)
            _require(value is None or (type(value) is int and value >= 0), f"{subject}: {number}", "0 or more")
        _require(type(self.expires) is str and _is_date(self.expires), f"{subject}: expires", "a date as 2027-01-31")

    @property
    def expired(self) -> bool:
        return bool(self.expires) and date.today().isoformat() >= self.expires

    def caller(self) -> Caller:
        return Caller(
            key_id=self.name,
            tenant=self.tenant or self.name,
            priority=self.priority,
            models_allowed=frozenset(self.models) or None,
            scopes=frozenset(self.scopes),
        )

    def line(self) -> str:
        """As it is stored: without what is at its default."""
        defaults = {field.name: field.default for field in fields(self)}
        said = {name: value for name, value in asdict(self).items() if value != defaults[name]}
        return json.dumps(said)


def new_key() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def parse_keys(text: str, source: str) -> list[ApiKey]:
    """The keys of ``text``; blank lines and lines that begin with ``#`` are passed over.

    Raises:
        CallerMistake: a line that is none, an unknown name in it, the same name or hash twice.
    """
    keys: list[ApiKey] = []
    for place, line in _lines(text, source):
        key = _key(line, place)
        for other in keys:
            if other.name == key.name or other.hash == key.hash:
                raise CallerMistake(f"{place}: key '{key.name}' has the name or the hash of another; keep one of them.")
        keys.append(key)
    return keys


def _lines(text: str, source: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if (line := line.strip()) and not line.startswith("#"):
            yield f"{source}:{number}", line


def _key(line: str, place: str) -> ApiKey:
    try:
        said: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CallerMistake(f"{place}: no JSON; a line is what 'triton-llm gateway-key NAME' prints.") from error
    if not isinstance(said, dict):
        raise CallerMistake(f"{place}: no JSON object; a line is what 'triton-llm gateway-key NAME' prints.")
    known = [field.name for field in fields(ApiKey)]
    for name in said:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}."
            raise CallerMistake(f"{place}: '{name}' is not known; {remedy}")
    for name in ("name", "hash"):
        if name not in said:
            raise CallerMistake(f"{place}: '{name}' is missing; a line is what 'triton-llm gateway-key NAME' prints.")
    lists = {name: tuple(said[name]) for name in ("models", "scopes") if isinstance(said.get(name), list)}
    try:
        return ApiKey(**{**said, **lists})
    except CallerMistake as error:
        raise CallerMistake(f"{place}: {error}") from error


def _require(holds: object, subject: str, rule: str) -> None:
    if not holds:
        raise CallerMistake(f"{subject}: it must be {rule}.")


def _are_texts(values: object) -> bool:
    return isinstance(values, tuple) and all(type(value) is str and value for value in values)


def _is_date(text: str) -> bool:
    try:
        return not text or date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
