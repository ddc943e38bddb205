"""The Python of docs/clients.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server_under_test import ServerUnderTest

PAGE = Path(__file__).parents[3] / "docs" / "clients.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_examples_print_text(server: ServerUnderTest, capsys: pytest.CaptureFixture[str], block: str) -> None:
    assert "127.0.0.1:8001" in block
    exec(compile(block.replace("127.0.0.1:8001", server.grpc_url), str(PAGE), "exec"), {})
    assert len(capsys.readouterr().out.strip()) > 20
