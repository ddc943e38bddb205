"""The README's commands, executed as they stand; only the ports are swapped for free ones."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from server_under_test import free_ports, wait_until

PROJECT = Path(__file__).parents[2]
_BLOCK = re.compile(r"(?:<!-- run: (?P<how>[a-z-]+) -->\n)?```(?P<language>sh|python)\n(?P<text>.*?)```", re.DOTALL)
_PORTS = ("8000", "8001", "8002", "8003", "9000")
_PORT = re.compile("|".join(_PORTS))


@dataclass(frozen=True)
class Block:
    how: str | None
    language: str
    text: str


def blocks() -> list[Block]:
    text = (PROJECT / "README.md").read_text("utf-8")
    return [Block(m["how"], m["language"], m["text"]) for m in _BLOCK.finditer(text)]


def commands(block: Block) -> list[str]:
    """Lines of a shell block, continuation lines joined, comments dropped."""
    joined = block.text.replace("\\\n", " ")
    return [line.split("  #")[0].strip() for line in joined.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def ports() -> dict[str, str]:
    return dict(zip(_PORTS, map(str, free_ports(len(_PORTS))), strict=True))


@pytest.fixture(scope="module")
def environment(ports: dict[str, str]) -> dict[str, str]:
    names = ("HTTP_PORT", "GRPC_PORT", "METRICS_PORT", "HEALTH_PORT", "GATEWAY_PORT")
    return {**os.environ, **dict(zip(names, ports.values(), strict=True))}


@pytest.fixture(scope="module")
def served(
    ports: dict[str, str], environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The first of the two commands, until the block ends: then Ctrl-C, and it must have stopped cleanly."""
    log = tmp_path_factory.mktemp("readme") / "make-serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["make", "serve"], cwd=PROJECT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        wait_until(lambda: process.poll() is not None or _ready(ports), "make serve to be ready", 600)
        assert process.poll() is None, log.read_text("utf-8")
        yield
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(120)
    assert "stopped; every request finished." in log.read_text("utf-8")


def _ready(ports: dict[str, str]) -> bool:
    try:
        ready = (f"{ports['8003']}/ready", f"{ports['9000']}/health/ready")
        return all(httpx.get(f"http://127.0.0.1:{each}").status_code == 200 for each in ready)
    except httpx.TransportError:
        return False


def test_every_block_says_how_it_is_run() -> None:
    assert {block.how for block in blocks()} == {"two-commands", "with-server", "dry"}


def test_the_two_commands_come_first() -> None:
    assert blocks()[0].how == "two-commands"
    assert commands(blocks()[0]) == ["make serve", "make test"]


@pytest.mark.parametrize("command", [c for b in blocks() if b.how in ("dry", "two-commands") for c in commands(b)])
def test_make_knows_what_the_readme_asks_for(command: str) -> None:
    words = command.split()
    subprocess.run([words[0], "--dry-run", *words[1:]], cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("block", [b for b in blocks() if b.how == "with-server"], ids=lambda block: block.language)
def test_commands_beside_the_server(block: Block, ports: dict[str, str], environment: dict[str, str]) -> None:
    for text in commands(block) if block.language == "sh" else [block.text]:
        text = _PORT.sub(lambda found: ports[found[0]], text)  # at once: a free port may hold the digits of another
        shell = ["bash", "-ec"] if block.language == "sh" else [sys.executable, "-c"]
        done = subprocess.run([*shell, text], cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        if "/ready" not in text:
            assert "Paris" in done.stdout
