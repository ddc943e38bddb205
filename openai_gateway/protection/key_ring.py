"""The keys that are taken now: of a file, read again when it changes, and of the environment."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from time import monotonic

from openai_gateway.protection.keys import ApiKey, hash_of, parse_keys
from openai_gateway.protection.settings import KEYS_VARIABLE
from python_llm.errors import CallerMistake

__all__ = ["KeyRing"]

_LOOK_SECONDS = 1.0
_log = logging.getLogger(__name__)

State = tuple[int, ...]


class KeyRing:
    """Without a file and without ``text`` there are no keys: everybody may ask.

    A file that can no longer be read leaves the keys as they were, and is complained of once.

    Raises:
        CallerMistake: the file cannot be read, or a key in it cannot work.
    """

    def __init__(self, file: Path | None = None, text: str = "", *, clock: Callable[[], float] = monotonic) -> None:
        self._file, self._clock = file, clock
        self._fixed = parse_keys(text, KEYS_VARIABLE)
        self._salt = secrets.token_bytes(32)  # where a hash stands in the table says nothing to who measures times
        self._state: State = ()
        self._looked = clock()
        self._table: dict[bytes, ApiKey] = {}
        if file is not None:
            self._state = self._stat()
        self._read()

    @property
    def configured(self) -> bool:
        """Whether keys are asked for at all; a file without a key in it lets nobody in."""
        return self._file is not None or bool(self._fixed)

    def find(self, key: str) -> ApiKey | None:
        """The entry of a key that somebody sent; None: not known, or expired."""
        self._look()
        said = hash_of(key)
        found = self._table.get(self._place(said))
        if found is None or not hmac.compare_digest(found.hash, said) or found.expired:
            return None
        return found

    def _place(self, said: str) -> bytes:
        return blake2b(said.encode(), key=self._salt, digest_size=16).digest()

    def _look(self) -> None:
        now = self._clock()
        if self._file is None or now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        try:
            state = self._stat()
        except CallerMistake as error:
            if self._state:
                _log.error("keys: those of before are kept: %s", error)
            self._state = ()
            return
        if state != self._state:
            self._state = state
            self._read_again()

    def _read_again(self) -> None:
        try:
            self._read()
        except CallerMistake as error:
            _log.error("keys: those of before are kept: %s", error)
        else:
            _log.info("keys: read '%s' again: %d keys", self._file, len(self._table))

    def _stat(self) -> State:
        assert self._file is not None
        try:
            found = os.stat(self._file)
        except OSError as error:
            raise _unreadable(self._file, error) from error
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> None:
        text = ""
        if self._file is not None:
            try:
                text = self._file.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise _unreadable(self._file, error) from error
        keys = [*self._fixed, *parse_keys(text, str(self._file))]
        if len({key.name for key in keys}) < len(keys) or len({key.hash for key in keys}) < len(keys):
            raise CallerMistake(f"keys file '{self._file}': a key of {KEYS_VARIABLE} is in it too; keep one of them.")
        self._table = {self._place(key.hash): key for key in keys}


def _unreadable(file: Path, error: Exception) -> CallerMistake:
    why = getattr(error, "strerror", None) or error
    return CallerMistake(f"keys file '{file}': {why}; 'triton-llm gateway-key NAME --file {file}' writes one.")
