"""Every command and program of docs/clients.md is run as it stands there, beside the default model.

Only the ports are swapped. What a block must print stands before it: ``<!-- prints: TEXT -->``. One that is not for a
test's machine says ``<!-- run: dry -->``: make alone looks at it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from server_under_test import ServerUnderTest, running_server

PROJECT = Path(__file__).parents[3]
PAGE = PROJECT / "docs" / "clients.md"
_BLOCK = re.compile(
    r"(?:<!-- (?P<how>run|prints): (?P<what>.*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)```", re.DOTALL
)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    prints: str
    dry: bool


def blocks() -> list[Block]:
    found = _BLOCK.finditer(PAGE.read_text("utf-8"))
    return [
        Block(m["language"], m["text"], m["what"] or "" if m["how"] != "run" else "", m["how"] == "run") for m in found
    ]


@pytest.fixture(scope="module")
def guided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    """Serves the default model as ``smollm2``, and as ``ensemble`` for clients that hard-code NVIDIA's name."""
    folder = tmp_path_factory.mktemp("guide")
    artifact = build(EngineSpec(model="smollm2"), PROJECT / "engines").path
    for name in ("smollm2", "ensemble"):
        add_entry(name, artifact, folder / "repository")
    with running_server(folder / "repository", run_dir=folder / "run") as running:
        yield running


def test_every_block_has_a_language() -> None:
    assert {block.language for block in blocks()} == {"sh", "python"}


@pytest.mark.parametrize("block", [b for b in blocks() if b.dry], ids=lambda b: b.text.strip())
def test_make_knows_what_is_asked_for(block: Block) -> None:
    for line in block.text.splitlines():
        words = line.split()
        subprocess.run([words[0], "--dry-run", *words[1:]], cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("block", [b for b in blocks() if not b.dry], ids=lambda block: block.language)
def test_it_runs_as_it_stands(guided: ServerUnderTest, tmp_path: Path, block: Block) -> None:
    text = block.text.replace("127.0.0.1:8001", guided.grpc_url)
    text = text.replace("127.0.0.1:8000", guided.http_url.removeprefix("http://"))
    environment = {
        **os.environ,
        "HTTP_PORT": str(guided.http_port),
        "GRPC_PORT": str(guided.grpc_port),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    shell = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
    done = subprocess.run([*shell, text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert block.prints in done.stdout
    assert len(done.stdout.strip()) > 10
