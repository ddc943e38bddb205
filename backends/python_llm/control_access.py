"""How to reach the control requests of a running server: its address and the secret of its present start.

The launcher keeps both in its run folder while the server runs, readable by their owner alone; who unloads a model
reads them there, to let its engine retire first.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import urllib.parse
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from python_llm.records import read_record

__all__ = ["FILE", "ControlAccess"]

FILE = "control.json"


@dataclass(frozen=True)
class ControlAccess:
    """``http``: Triton's HTTP address, http://host:port, as this machine reaches it."""

    http: str
    secret: str = field(repr=False)

    @staticmethod
    def read(folder: Path) -> ControlAccess:
        """What the launcher on this run folder wrote.

        Raises:
            OSError: no server runs on it, or it is another user's.
            ValueError: the file is torn.
            RecordError: it was written by another version.
        """
        file = folder / FILE
        return read_record(ControlAccess, json.loads(file.read_text("utf-8")), f"'{file}'")

    def write(self, folder: Path) -> None:
        """Never readable by others, and never half of it."""
        scratch = folder / f".{FILE}.{secrets.token_hex(8)}"
        try:
            with open(scratch, "x", encoding="utf-8", opener=_private) as stream:
                stream.write(json.dumps(asdict(self)) + "\n")
            scratch.replace(folder / FILE)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise

    def opens(self, url: str) -> bool:
        """Whether ``url`` is this server's, so that the secret goes nowhere else."""
        ours, asked = urllib.parse.urlsplit(self.http), urllib.parse.urlsplit(url)
        hosts = (ours.hostname or "", asked.hostname or "")
        return ours.port == asked.port and (hosts[0] == hosts[1] or all(map(_is_loopback, hosts)))


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
