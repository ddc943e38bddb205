"""What the client's unit ring shares: the scripted Triton on both wires, and a batch's files."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc

from scripted_triton import GrpcSide, ScriptedTriton, Web, http_handler
from triton_llm.cli import main

WAIT_SECONDS = 60.0  # only catches hangs


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C reaches the programs that tests start, also where a shell runs pytest in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def triton() -> Iterator[ScriptedTriton]:
    scripted = ScriptedTriton()
    pool = ThreadPoolExecutor(8)
    server = grpc.server(pool)
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(GrpcSide(scripted), server)
    scripted.grpc_url = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    web = Web(("127.0.0.1", 0), http_handler(scripted))
    scripted.http_url = f"http://127.0.0.1:{web.server_address[1]}"
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield scripted
    scripted.left.set()
    web.shutdown()
    web.server_close()
    thread.join()
    server.stop(None).wait(WAIT_SECONDS)
    pool.shutdown()


@pytest.fixture(params=["grpc", "http"])
def url(request: pytest.FixtureRequest, triton: ScriptedTriton) -> str:
    """The scripted Triton's address, once for each wire."""
    return triton.grpc_url if request.param == "grpc" else triton.http_url


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "in.jsonl"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


@pytest.fixture
def batch(triton: Any, source: Path, output: Path) -> Callable[..., int]:
    """Run the verb on these lines; values become JSON, bytes stay as they are."""

    def run(lines: list[Any], *options: str, url: str | None = None) -> int:
        source.write_bytes(b"".join(_raw(line) + b"\n" for line in lines))
        return main(["batch", str(source), "-o", str(output), "--url", url or triton.grpc_url, *options])

    return run


def _raw(line: Any) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line).encode()
