"""The secret of a server's start lies where its owner alone reads it, and goes to that server alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from python_llm.control_access import FILE, ControlAccess
from python_llm.records import RecordError

ACCESS = ControlAccess("http://127.0.0.1:8000", "s3cret")


def test_what_is_written_is_read_and_nobody_else_may(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        ControlAccess("http://127.0.0.1:8000", "the last start's").write(tmp_path)
        ACCESS.write(tmp_path)
    finally:
        os.umask(old)
    assert ControlAccess.read(tmp_path) == ACCESS
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert "s3cret" not in repr(ACCESS)


def test_what_is_no_access_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ControlAccess.read(tmp_path)
    (tmp_path / FILE).write_text('{"http": "x"}')
    with pytest.raises(RecordError, match="missing secret"):
        ControlAccess.read(tmp_path)
    (tmp_path / FILE).write_text("{")
    with pytest.raises(ValueError, match="Expecting"):
        ControlAccess.read(tmp_path)


@pytest.mark.parametrize(
    ("http", "url", "opens"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/", True),
        ("http://127.0.0.1:8000", "http://localhost:8000", True),
        ("http://127.0.0.1:8000", "http://[::1]:8000", True),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8001", False),
        ("http://127.0.0.1:8000", "http://10.0.0.5:8000", False),
        ("http://127.0.0.1:8000", "http://localhost.example:8000", False),
        ("http://10.0.0.5:8000", "http://10.0.0.5:8000", True),
        ("http://10.0.0.5:8000", "http://127.0.0.1:8000", False),
    ],
)
def test_it_opens_its_own_server(http: str, url: str, opens: bool) -> None:
    assert ControlAccess(http, "s3cret").opens(url) is opens
