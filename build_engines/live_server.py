"""A running Triton's explicit model control, over HTTP: load, unload, and wait for what was asked.

Triton answers an unload at once and finishes the model's running requests; the model is UNLOADING meanwhile. It
stays so for ever where Triton lost count of its requests (2.50 does when clients leave an ensemble mid-stream).
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from build_engines.errors import LiveFailure
from python_llm.errors import CallerMistake
from python_llm.settings import ADMIN_KEY_HEADER, ADMIN_KEY_VARIABLE

__all__ = ["LiveServer"]

Row = TypeVar("Row")

_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 30.0  # for calls that Triton answers at once
_FORBIDDEN = (401, 403)
_GONE = ("UNAVAILABLE", "")
_NO_SUCH_FOLDER = "failed to poll from model repository"
_TRACE = re.compile(r"\s*\bAt:(?:\s+\S+\(\d+\): \S+)+")  # where in our files an exception came from
_TRIAL = "1"  # a text that every tokenizer has tokens for
_LONGEST = 600  # characters of a server's message


class LiveServer:
    """The Triton at ``url`` (http://host:port). ``admin_key`` opens its model control where that is restricted."""

    def __init__(self, url: str, admin_key: str = "") -> None:
        if not _is_address(url):
            raise CallerMistake(f"url '{url}': it must be http://host:port, Triton's HTTP address.")
        self.url = url.rstrip("/")
        self._headers = {ADMIN_KEY_HEADER: admin_key} if admin_key else {}

    def states(self) -> Mapping[str, str]:
        """Triton's word for each model it knows: READY, LOADING, UNLOADING, UNAVAILABLE; empty: never loaded."""
        found: dict[str, str] = {}
        for (model, _), state in self.version_states().items():
            if found.get(model) != "READY":  # any version
                found[model] = state
        return found

    def version_states(self) -> Mapping[tuple[str, str], str]:
        """As `states`, by model and version; a model that was never loaded has the version ''."""
        try:
            rows = json.loads(self._post("/v2/repository/index", _ANSWER_SECONDS) or "[]")
            return {(row["name"], row.get("version", "")): row.get("state", "") for row in rows}
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise self._no_triton() from error

    def load(self, models: Sequence[str], wait_seconds: float) -> None:
        """Load in order and wait until all are ready. When one fails, those that were not there before go again.

        Raises:
            LiveFailure: the server refuses, a model does not load, or ``wait_seconds`` passed.
        """
        before = {model for model, state in self.states().items() if state == "READY"}
        loaded: list[str] = []
        try:
            for model in models:
                self._control(model, "load", wait_seconds)
                loaded.append(model)
            late = self._await(models, lambda state: state == "READY", wait_seconds)
            if late:
                raise LiveFailure(f"{_named(late)} at '{self.url}': not READY after {wait_seconds:g} s; see its log.")
        except LiveFailure:
            with suppress(LiveFailure):
                self.unload([model for model in reversed(loaded) if model not in before], 0.0)
            raise

    def load_version(self, model: str, version: int, wait_seconds: float) -> None:
        """Have the model's version_policy done, and wait until that version of it is ready; Triton says it at once.

        Raises:
            LiveFailure: the server refuses, the version does not load, or ``wait_seconds`` passed.
        """
        self._control(model, "load", wait_seconds)
        state = self.version_states().get((model, str(version)), "")
        if state != "READY":
            raise LiveFailure(
                f"model '{model}' version {version} at '{self.url}': {state or 'not loaded'}; see the server's log."
            )

    def try_version(self, generator: str, version: int, wait_seconds: float) -> None:
        """One token of that very version. Raises LiveFailure: it has none."""
        body = json.dumps({"text_input": _TRIAL, "max_tokens": 1}).encode()
        try:
            self._post(_generate(generator, version), wait_seconds, body)
        except LiveFailure as error:
            raise LiveFailure(f"model '{generator}' version {version}: it answers no request: {error}") from error

    def await_gone(self, rows: Sequence[tuple[str, int]], wait_seconds: float) -> Mapping[tuple[str, int], str]:
        """Until Triton has those versions of models no more; returns the states of those that it still has."""

        def left() -> Mapping[tuple[str, int], str]:
            states = self.version_states()
            found = {row: states.get((row[0], str(row[1])), "") for row in rows}
            return {row: state for row, state in found.items() if state not in _GONE}

        return _await_none(left, wait_seconds)

    def unload(self, models: Iterable[str], wait_seconds: float) -> Mapping[str, str]:
        """Unload in order; their running requests finish. Returns those still there after ``wait_seconds``."""
        states = self.states()
        there = [model for model in models if states.get(model, "") not in _GONE]
        for model in there:
            self._control(model, "unload", _ANSWER_SECONDS)
        return self._await(there, lambda state: state in _GONE, wait_seconds)

    def control(self, model: str, version: str, order: Mapping[str, Any]) -> Any:
        """The answer of that generator to a control request, which holds its secret.

        Raises:
            LiveFailure: it is not there, or refuses.
        """
        body = json.dumps({"control": json.dumps(order)}).encode()
        answer = self._post(_generate(model, int(version)), _ANSWER_SECONDS, body)
        try:
            return json.loads(json.loads(answer)["text_output"])
        except (ValueError, LookupError, TypeError) as error:
            raise self._no_triton() from error

    def retire(self, model: str, secret: str, grace_seconds: float, *, after_unload: int | None = None) -> None:
        """Tell the generator ``model`` to free its engine when what runs has ended, or after so many seconds.

        ``after_unload``: tell that version of it, which begins with this once Triton has it no more.

        Raises:
            LiveFailure: it is not there, or the secret is not that of this start.
        """
        order = {"operation": "retire", "secret": secret, "grace_seconds": grace_seconds, "wait": False}
        if after_unload is not None:
            order["after_unload"] = True
        body = json.dumps({"control": json.dumps(order)}).encode()
        try:
            self._post(_generate(model, after_unload), _ANSWER_SECONDS, body)
        except LiveFailure as error:
            raise LiveFailure(f"retiring '{model}': {error}") from error

    def _await(self, models: Iterable[str], holds: Callable[[str], bool], wait_seconds: float) -> Mapping[str, str]:
        """Until it holds for each; returns the states of those for which it does not."""
        wanted = list(models)

        def late() -> Mapping[str, str]:
            states = self.states()
            return {model: states.get(model, "") for model in wanted if not holds(states.get(model, ""))}

        return _await_none(late, wait_seconds)

    def _control(self, model: str, action: str, seconds: float) -> None:
        try:
            self._post(f"/v2/repository/models/{urllib.parse.quote(model)}/{action}", seconds)
        except LiveFailure as error:
            remedy = ""
            if _NO_SUCH_FOLDER in str(error):
                remedy = " It serves another model repository: name that with --repository, or leave --url out."
            raise LiveFailure(f"{action} of '{model}': {error}{remedy}") from error

    def _post(self, path: str, seconds: float, body: bytes = b"{}") -> str:
        request = urllib.request.Request(self.url + path, body, self._headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                message = _message(error.read())
            if error.code in _FORBIDDEN:
                raise CallerMistake(
                    f"server '{self.url}': it wants its administrative key; put the key of its admin.key file into "
                    f"{ADMIN_KEY_VARIABLE} or name the file with --admin-key-file."
                ) from error
            raise LiveFailure(f"server '{self.url}' answers {error.code}: {message}") from error
        except (http.client.BadStatusLine, UnicodeDecodeError) as error:
            if isinstance(error, OSError):  # it hung up without a word
                raise self._silent(error) from error
            raise self._no_triton() from error
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> LiveFailure:
        cause = getattr(error, "reason", None) or error
        return LiveFailure(
            f"server '{self.url}': {cause}; a Triton must listen there: start one with 'triton-llm serve'."
        )

    def _no_triton(self) -> CallerMistake:
        return CallerMistake(
            f"url '{self.url}': what listens there does not answer as Triton's HTTP port does; it may be the gRPC port "
            "or another server: give the HTTP port, 8000 where none was chosen."
        )


def _await_none(look: Callable[[], Mapping[Row, str]], wait_seconds: float) -> Mapping[Row, str]:
    """Look until nothing is left, or the time is up; what was left at the last look."""
    deadline = time.monotonic() + wait_seconds
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    return left


def _is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        return False


def _generate(model: str, version: int | None) -> str:
    which = "" if version is None else f"/versions/{version}"
    return f"/v2/models/{urllib.parse.quote(model)}{which}/generate"


def _named(models: Iterable[str]) -> str:
    return "model " + ", ".join(f"'{model}'" for model in models)


def _message(body: bytes) -> str:
    try:
        found: Any = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        found = body.decode(errors="replace")
    line = " ".join(_TRACE.sub("", str(found)).split()).rstrip(" ;")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
