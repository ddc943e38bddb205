"""What can be set about the gateway's protection."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from python_llm.errors import CallerMistake

__all__ = ["KEYS_VARIABLE", "Limits", "ProtectionSettings"]


KEYS_VARIABLE = "GATEWAY_KEYS"  # lines as of a keys file


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one key; 0: none. Tokens are those of prompts and answers together."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    tokens_per_day: int = 0
    max_running: int = 0

    def __post_init__(self) -> None:
        for name in ("requests_per_minute", "tokens_per_minute", "tokens_per_day", "max_running"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionSettings:
    """``keys_text``: keys as lines of a keys file. ``limits``: of keys that do not say their own, and of everybody
    together where there are no keys. ``models``: all others are hidden from everybody; empty: none is.
    """

    keys_file: Path | None = None
    keys_text: str = field(default="", repr=False)
    anonymous: bool = False  # serve without keys beyond this machine
    public_metrics: bool = False  # /metrics needs no key
    limits: Limits = field(default_factory=Limits)
    models: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()  # web pages of these origins may ask; empty: those of the gateway itself alone
    allowed_hosts: tuple[str, ...] = ()  # names the gateway goes by, where there are no keys; empty: see same_origin
    header_seconds: float = 10.0  # for a request's head to arrive, and for what is left of a refused body
    body_seconds: float = 60.0  # for its body
    stalled_seconds: float = 60.0  # a client that takes nothing of its answer for so long is cut
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None  # clients must show a certificate of this authority
    access_log: bool = True

    def __post_init__(self) -> None:
        for name in ("header_seconds", "body_seconds", "stalled_seconds"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise CallerMistake("--tls-certificate, --tls-key: one is given without the other; give both.")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise CallerMistake("--tls-client-ca: there is no --tls-certificate; give that and its key too.")
        for file in (self.tls_certificate, self.tls_key, self.tls_client_ca):
            if file is not None and not file.is_file():
                raise CallerMistake(f"TLS file '{file}': it does not exist; give a PEM file.")
        for origin in self.cors_origins:
            _check_origin(origin)

    @property
    def has_keys(self) -> bool:
        return self.keys_file is not None or bool(self.keys_text.strip())


def _require(holds: bool, name: str, value: float, rule: str) -> None:
    if not holds:
        raise CallerMistake(f"--{name.replace('_', '-')} {value:g}: it must be {rule}.")


def _check_origin(origin: str) -> None:
    parts = urlsplit(origin)
    if origin != "*" and (parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}"):
        raise CallerMistake(f"--cors-origin '{origin}': it must be scheme://host[:port] without a path, or *.")
