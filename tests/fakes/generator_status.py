"""What a generator under test says of itself, asked as the launcher asks: with the secret of this start."""

from __future__ import annotations

from pathlib import Path

from python_llm.settings import CONTROL_SECRET_VARIABLE
from server_under_test import ServerUnderTest
from triton_launcher.control import Control, Status

__all__ = ["generator_status"]


def generator_status(server: ServerUnderTest, model: str) -> Status:
    """Status of the Triton model ``model``; the secret is read from tritonserver's own environment."""
    environment = Path(f"/proc/{server.tritonserver()}/environ").read_bytes().split(b"\0")
    entries = dict(entry.decode().partition("=")[::2] for entry in environment if entry)
    control = Control(server.grpc_url, entries[CONTROL_SECRET_VARIABLE])
    try:
        return control.status(model, timeout=30.0)
    finally:
        control.close()
