"""A real gateway under test: ``triton-llm gateway`` as a subprocess on a free port, listening when the block begins."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server_under_test import ServerUnderTest, wait_until

__all__ = ["GatewayUnderTest", "running_gateway", "upstream_of"]

_SECONDS = 120.0  # only catches hangs
_SAYS = re.compile(r"^gateway: (http://\S+)$", re.MULTILINE)
_SAMPLE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$", re.MULTILINE)


@dataclass
class GatewayUnderTest:
    process: subprocess.Popen[bytes]
    log: Path
    url: str = ""
    key: str = ""  # an operator's, where the gateway asks for keys

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
            return json.load(answer)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = json.dumps(body or {}).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return json.load(answer)

    def servers(self) -> dict[str, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        request = urllib.request.Request(f"{self.url}/admin/servers", headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return {server["name"]: server for server in json.load(answer)}

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name whose labels hold these."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        found = (m for m in _SAMPLE.finditer(text) if m["name"] == name)
        return sum(float(m["value"]) for m in found if all(pair in (m["labels"] or "") for pair in wanted))

    def is_ready(self) -> bool:
        """Whether every server behind it takes requests."""
        return all(not server["trouble"] for server in self.servers().values())

    def wait_until(self, condition: Any, what: str) -> None:
        try:
            wait_until(condition, what, _SECONDS)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.log.read_text('utf-8', 'replace')[-4000:]}") from None

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


def upstream_of(server: ServerUnderTest) -> str:
    return f"{server.grpc_url},{server.health_port}"


@contextmanager
def running_gateway(
    servers: Sequence[ServerUnderTest], log: Path, *, extra: Sequence[str] = (), key: str = ""
) -> Iterator[GatewayUnderTest]:
    """In front of ``servers`` until the block ends; all of them are ready when it begins."""
    command = [sys.executable, "-m", "triton_llm.cli", "gateway", "--port", "0", *extra]
    for server in servers:
        command += ["--upstream", upstream_of(server)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    gateway = GatewayUnderTest(process, log, key=key)
    try:
        gateway.wait_until(lambda: process.poll() is not None or _SAYS.search(log.read_text()), "the gateway to listen")
        said = _SAYS.search(log.read_text("utf-8"))
        assert said is not None, log.read_text("utf-8")
        gateway.url = said[1]
        gateway.wait_until(gateway.is_ready, "the servers behind the gateway")
        yield gateway
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
