"""What a generator under test says of itself, asked as the launcher asks: with the secret of this start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from python_llm.settings import CONTROL_SECRET_VARIABLE
from server_under_test import ServerUnderTest
from triton_launcher.control import Control, Status

__all__ = ["generator_answer", "generator_status"]


def generator_status(server: ServerUnderTest, model: str) -> Status:
    """Status of the Triton model ``model``, as the launcher reads it."""
    with _control(server) as control:
        return control.status(model, timeout=30.0)


def generator_answer(server: ServerUnderTest, model: str, operation: str) -> Mapping[str, Any]:
    """The whole answer to a control request, the engine's figures included."""
    with _control(server) as control:
        return control.ask(model, operation, timeout=30.0)


@contextmanager
def _control(server: ServerUnderTest) -> Iterator[Control]:
    """The secret is read from tritonserver's own environment."""
    environment = Path(f"/proc/{server.tritonserver()}/environ").read_bytes().split(b"\0")
    entries = dict(entry.decode().partition("=")[::2] for entry in environment if entry)
    control = Control(server.grpc_url, entries[CONTROL_SECRET_VARIABLE])
    try:
        yield control
    finally:
        control.close()
