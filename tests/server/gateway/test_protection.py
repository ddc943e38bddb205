"""An operator's load and unload through the gateway, on a real Triton; and its keys before it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from build_engines.repository import add_entry
from gateway_under_test import GatewayUnderTest, running_gateway
from openai_gateway.protection.key_cli import _append
from openai_gateway.protection.keys import ApiKey, hash_of
from server_under_test import running_server
from tests.soak.served import TINY, tiny_artifact

ASK = {"model": "tiny", "prompt": "hello", "max_tokens": 4}


def ask(gateway: GatewayUnderTest, path: str, key: str, body: Any = None, *, method: str = "POST") -> tuple[int, Any]:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{gateway.url}{path}", data, {"Authorization": f"Bearer {key}"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "keys.jsonl"
    _append(file, ApiKey(name="alice", hash=hash_of("alice"), tenant="team"))
    _append(file, ApiKey(name="boss", hash=hash_of("boss"), scopes=("admin", "metrics")))
    return file


def test_an_operator_unloads_and_loads_a_model_and_nobody_else_does(tmp_path: Path, keys: Path) -> None:
    add_entry("tiny", tiny_artifact(tmp_path), tmp_path / "repository", TINY)
    extra = ["--keys", str(keys), "--health-seconds", "0.3"]
    with (
        running_server(tmp_path / "repository", run_dir=tmp_path / "run") as server,
        running_gateway([server], tmp_path / "gateway.log", extra=extra, key="boss") as gateway,
    ):
        assert ask(gateway, "/v1/completions", "", ASK)[0] == 401
        assert ask(gateway, "/v1/completions", "boss", ASK)[0] == 403
        assert ask(gateway, "/v1/completions", "alice", ASK)[0] == 200
        assert ask(gateway, "/admin/models/tiny/unload", "alice")[0] == 403
        status, told = ask(gateway, "/admin/models/tiny/unload", "boss")
        assert (status, told["state"]) == (200, "unavailable")
        status, told = ask(gateway, "/v1/completions", "alice", ASK)
        assert status in (404, 503)
        status, told = ask(gateway, "/admin/models/tiny/load", "boss")
        assert (status, told["state"]) == (200, "ready")
        assert told["versions"] == [{"version": "1", "state": "ready", "reason": ""}]
        gateway.wait_until(lambda: ask(gateway, "/v1/completions", "alice", ASK)[0] == 200, "the model's return")
        log = gateway.log.read_text()
        assert '"key": "alice"' in log
        assert "hello" not in log
