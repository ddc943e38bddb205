"""``triton-llm bench perf-analyzer``: a served model under NVIDIA's own load generator, on three routes."""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from python_llm.contract import ENSEMBLE, GENERATOR, ROLES, RoleContract, generator_model, role_model
from python_llm.errors import CallerMistake, EngineFailure, NotFound
from triton_llm_client.aio import DEFAULT_MODEL
from triton_llm_client.bench.perf_tool import PerfTool, find_or_fetch
from triton_llm_client.cli_options import url_of
from triton_llm_client.failures import ServerUnreachable

__all__ = ["FOLDER", "PROMPTS", "Measured", "Route", "add_arguments", "measure", "routes", "run"]

FOLDER = Path(".perf-analyzer")
PROMPTS = ("The capital of France is", "Once upon a time", "The tide went out and", "Water boils at")
_LATENCIES = ("p50 latency", "p99 latency")


@dataclass(frozen=True)
class Route:
    """One way to ask the served model."""

    model: str
    protocol: str
    url: str
    contract: RoleContract

    def arguments(self) -> list[str]:
        streaming = ["--streaming"] if self.contract.decoupled else []
        return ["-m", self.model, "-i", self.protocol, "-u", self.url.rpartition("/")[2], *streaming]

    def data(self, max_tokens: int) -> str:
        """perf_analyzer's input file: one value list for each tensor."""
        values = {"max_tokens": [max_tokens], "stream": [True], "ignore_eos": [True]}
        sent = {name: value for name, value in values.items() if self.contract.input(name)}
        return json.dumps({"data": [{"text_input": [prompt], **sent} for prompt in PROMPTS]})


@dataclass(frozen=True)
class Measured:
    """One row of a CSV that perf_analyzer wrote."""

    route: Route
    in_flight: int
    requests_per_second: float
    responses_per_second: float
    milliseconds: tuple[float, ...]  # of _LATENCIES
    file: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default=DEFAULT_MODEL, help="served name (default: %(default)s)")
    parser.add_argument("--grpc-url", metavar="HOST:PORT", help="default: HOST and GRPC_PORT of the environment")
    parser.add_argument("--http-url", metavar="HOST:PORT", help="default: HOST and HTTP_PORT of the environment")
    parser.add_argument("--in-flight", nargs="+", type=int, default=[1, 4], metavar="N", help="default: 1 4")
    parser.add_argument("--requests", type=int, default=20, metavar="N", help="for each figure (default: %(default)s)")
    parser.add_argument("--max-tokens", type=int, default=32, metavar="N", help="of a request (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=FOLDER / "results", help="folder of the CSV files (%(default)s)")
    parser.add_argument("--tool", type=Path, default=FOLDER, help="folder the tool is fetched into (%(default)s)")


def run(args: argparse.Namespace) -> int:
    for name in ("requests", "max_tokens"):
        if getattr(args, name) < 1:
            raise CallerMistake(f"--{name.replace('_', '-')} {getattr(args, name)}: it must be at least 1.")
    if min(args.in_flight) < 1:
        raise CallerMistake(f"--in-flight {min(args.in_flight)}: it must be at least 1.")
    grpc_url = url_of(argparse.Namespace(url=args.grpc_url, http=False))
    http_url = url_of(argparse.Namespace(url=args.http_url, http=True))
    asked = routes(args.model, grpc_url, http_url)
    for route in asked:
        _check_ready(route.model, http_url)
    tool = find_or_fetch(args.tool)
    args.output.mkdir(parents=True, exist_ok=True)
    measured = []
    for route in asked:
        for level in args.in_flight:
            print(f"{route.model}, {level} in flight", file=sys.stderr, flush=True)
            measured.append(measure(tool, route, level, args.requests, args.max_tokens, args.output))
    print("\n".join(_table(measured)))
    return 0


def routes(name: str, grpc_url: str, http_url: str) -> tuple[Route, ...]:
    return (
        Route(name, "grpc", grpc_url, ENSEMBLE),
        Route(generator_model(name), "grpc", grpc_url, GENERATOR),
        Route(role_model(name, "unary"), "http", http_url, ROLES["unary"]),
    )


def measure(tool: PerfTool, route: Route, in_flight: int, requests: int, max_tokens: int, output: Path) -> Measured:
    """One figure; the CSV is kept in ``output``.

    Raises:
        EngineFailure: perf_analyzer failed; the text holds its last words.
    """
    file = output.resolve() / f"{route.model}.{in_flight}.csv"
    file.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="triton-llm-perf-") as scratch:
        data = Path(scratch) / "input.json"
        data.write_text(route.data(max_tokens), "utf-8")
        # Fewer requests than in flight are refused by the tool.
        load = ["--concurrency-range", str(in_flight), "--request-count", str(max(requests, in_flight))]
        done = tool.run([*route.arguments(), *load, "--input-data", str(data), "-f", str(file)])
    if done.returncode or not file.is_file():
        raise EngineFailure("perf_analyzer_failed", f"perf_analyzer on '{route.model}': {done.stdout.strip()[-800:]}")
    row = next(csv.DictReader(file.read_text("utf-8").splitlines()))
    return Measured(
        route,
        in_flight,
        float(row["Inferences/Second"]),
        float(row.get("Response Throughput") or row["Inferences/Second"]),
        tuple(float(row[column]) / 1000 for column in _LATENCIES),
        file,
    )


def _check_ready(model: str, url: str) -> None:
    address = f"http://{url.rpartition('/')[2]}"
    try:
        urllib.request.urlopen(f"{address}/v2/models/{model}/ready", timeout=30).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise NotFound(
            "unknown_model", f"model '{model}' at '{address}': not ready; 'triton-llm repo list --url {address}' tells."
        ) from error
    except OSError as error:
        raise ServerUnreachable(address, str(getattr(error, "reason", error))) from error


def _table(measured: Sequence[Measured]) -> Iterator[str]:
    head = ("model", "route", "in flight", "requests/s", "responses/s", "p50 ms", "p99 ms", "CSV")
    rows = [head, *map(_cells, measured)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(one: Measured) -> tuple[str, ...]:
    rates = (one.requests_per_second, one.responses_per_second, *one.milliseconds)
    return one.route.model, one.route.protocol, str(one.in_flight), *(f"{rate:.1f}" for rate in rates), str(one.file)
