"""What streaming through Triton costs an engine that uses every core, whoever streams.

    .venv/bin/python tests/soak/stream_cost.py engines/smollm2 --rounds 12

In turns: the engine in a process of its own, alone; the same beside a tritonserver whose model (``bare_stream``) sends
as many responses a second to a Python gRPC client as the engine makes tokens, and does nothing else; and the served
engine. Each line: tokens/s alone, and ratios to it. What ``beside`` loses no server of this kind can gain.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc.aio as triton

from server_under_test import free_ports
from triton_launcher.backend_dir import assemble
from triton_launcher.discovery import find_triton
from triton_llm_client.bench.isolated import IsolatedSubject
from triton_llm_client.bench.load import Load, Outcome, Subject
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.statistics import paired_ratio
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.subjects.engine import open_engine
from triton_llm_client.bench.subjects.served import open_served

_HERE = Path(__file__).parent
_RESPONSES = 64  # of a stream


@contextmanager
def bare_triton() -> Iterator[str]:
    """A tritonserver with nothing but ``bare_stream``; its gRPC address."""
    found = find_triton()
    http, grpc = free_ports(2)
    with tempfile.TemporaryDirectory() as scratch, (Path(scratch) / "log").open("wb") as log:
        (Path(scratch) / "models").mkdir()
        (Path(scratch) / "models/bare_stream").symlink_to(_HERE / "bare_stream")
        backends = assemble(found, Path(scratch) / "backends", [])
        folders = [f"--model-repository={scratch}/models", f"--backend-directory={backends}"]
        ports = [f"--http-port={http}", f"--grpc-port={grpc}", "--allow-metrics=false"]
        environment = {**os.environ, **found.library_environment(os.environ)}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        command = [str(found.binary), *folders, *ports]
        with subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True) as server:
            try:
                asyncio.run(_until_ready(f"127.0.0.1:{grpc}", server))
                yield f"127.0.0.1:{grpc}"
            finally:
                server.terminate()


async def _until_ready(url: str, server: subprocess.Popen[bytes]) -> None:
    async with triton.InferenceServerClient(url) as client:
        while server.poll() is None:
            try:
                if await client.is_model_ready("bare_stream"):
                    return
            except triton.InferenceServerException:  # it does not listen yet
                pass
            await asyncio.sleep(0.2)
    raise RuntimeError(f"tritonserver ended with {server.returncode} before it was ready")


@contextmanager
def streaming(url: str, streams: int, seconds: float) -> Iterator[None]:
    """So many streams with a response each ``seconds``, read by a client in a process of its own."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_read, args=(url, streams, seconds), daemon=True)
    process.start()
    time.sleep(2.0)  # it imports its libraries
    if not process.is_alive():
        raise RuntimeError("the reader of the bare streams ended")
    try:
        yield
        if not process.is_alive():
            raise RuntimeError("the reader of the bare streams ended while it was measured")
    finally:
        process.kill()
        process.join()


def _read(url: str, streams: int, seconds: float) -> None:
    os.setsid()
    asyncio.run(_read_all(url, streams, seconds))


async def _read_all(url: str, streams: int, seconds: float) -> None:
    async with triton.InferenceServerClient(url) as client:
        await asyncio.gather(*(_read_stream(client, seconds) for _ in range(streams)))


async def _read_stream(client: Any, seconds: float) -> None:
    while True:
        async for answer, error in client.stream_infer(_request(seconds)):
            if error is not None:
                raise error
            answer.as_numpy("TEXT")


async def _request(seconds: float) -> AsyncIterator[dict[str, Any]]:
    count, pause = triton.InferInput("COUNT", [1], "INT32"), triton.InferInput("SECONDS", [1], "FP32")
    count.set_data_from_numpy(np.array([_RESPONSES], np.int32))
    pause.set_data_from_numpy(np.array([seconds], np.float32))
    yield {"model_name": "bare_stream", "inputs": [count, pause]}


def measure(subjects: dict[str, Subject], url: str, in_flight: int, args: argparse.Namespace) -> str:
    rates: dict[str, list[float]] = {"alone": [], "beside": [], "served": []}
    for number in range(-1, args.rounds):  # the first round warms up
        order = ("alone", "beside", "served") if number % 2 else ("served", "beside", "alone")
        for name in order:
            seed = f"{number} {in_flight} {name}"  # their own: what one answered the other's prefix cache would know
            prompts = random_prompts(max(4, 2 * in_flight), 128, seed=seed, vocabulary=args.words)
            load = Load(prompts, in_flight, 64)
            outcome = _run(subjects, name, load, url, in_flight, args)
            if number >= 0:
                rates[name].append(outcome.tokens_per_second)
    parts = [f"{in_flight} in flight: alone {sum(rates['alone']) / args.rounds:.0f} tokens/s"]
    for name in ("beside", "served"):
        ratio = paired_ratio(rates[name], rates["alone"])
        parts.append(f"{name} {ratio.value:.3f} ({ratio.low:.3f} .. {ratio.high:.3f})")
    return "; ".join(parts)


def _run(
    subjects: dict[str, Subject], name: str, load: Load, url: str, in_flight: int, args: argparse.Namespace
) -> Outcome:
    if name != "beside":
        return subjects["engine" if name == "alone" else "served"].run(load)
    with streaming(url, in_flight, args.seconds):
        return subjects["engine"].run(load)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=0.015, help="between two responses of a stream (0.015)")
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args(argv)
    setting = Setting(args.artifact.resolve(), "smollm2")
    args.words = setting.vocabulary()
    with ExitStack() as stack:
        url = stack.enter_context(bare_triton())
        subjects: dict[str, Subject] = {"engine": IsolatedSubject(open_engine, setting), "served": open_served(setting)}
        for subject in subjects.values():
            stack.callback(subject.close)
        for in_flight in args.in_flight:
            print(measure(subjects, url, in_flight, args), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
