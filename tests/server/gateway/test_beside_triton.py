"""``triton-llm serve`` starts the gateway, keeps it alive, and ends it before Triton."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from pathlib import Path

from fake_llm_repository import FAKE_BACKEND, write_artifact, write_entry
from server_under_test import free_ports, start_server
from triton_launcher import processes


def test_it_lives_as_long_as_the_launcher_and_ends_first(tmp_path: Path) -> None:
    write_entry(tmp_path / "repository", "fake-generator", write_artifact(tmp_path / "engines/fake"))
    (port,) = free_ports(1)
    extra = ["--backend", str(FAKE_BACKEND)]
    server = start_server(tmp_path / "repository", run_dir=tmp_path / "run", extra=extra, gateway=port)

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=10) as answer:
                return bool(json.load(answer)["ready"])
        except OSError:
            return False

    def gateway() -> int:
        """Its process id; 0: there is none."""
        found = [pid for pid in _children(server.process.pid) if "gateway" in processes.command_line(pid)]
        return found[0] if found else 0

    try:
        server.wait_until(lambda: server.is_ready() and ready(), "the gateway beside Triton")
        server.wait_until(lambda: f":{port}/v1/chat" in server.launcher_log_path.read_text(), "the welcome")
        old = gateway()
        os.kill(old, signal.SIGKILL)
        server.wait_until(lambda: gateway() not in (0, old) and ready(), "another gateway")
        killed, survivor = server.tritonserver(), gateway()
        os.kill(killed, signal.SIGKILL)
        server.wait_until(
            lambda: server.tritonserver() not in (0, killed) and server.is_ready() and ready(), "Triton back"
        )
        assert gateway() == survivor
    finally:
        code = server.stop()
    assert code == 0
    assert not processes.is_alive(survivor)
    told = server.launcher_log_path.read_text("utf-8")
    assert 0 < told.index("the gateway stopped.") < told.index("stopped; every request finished.")


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found
