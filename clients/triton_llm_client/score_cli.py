"""``triton-llm score``: log-likelihood of each line of a file, and the perplexity of all of them.

One line of output per line of input, in order. A run that ended early goes on with ``--resume``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from python_llm.errors import CallerMistake, ServeError
from triton_llm_client.batch import in_order
from triton_llm_client.batch_output import BatchOutput
from triton_llm_client.batch_progress import Progress
from triton_llm_client.cli_options import url_of
from triton_llm_client.score import ScoreClient
from triton_llm_client.score_line import ScoreLine, perplexity, read_score_lines

__all__ = ["add_arguments", "run"]

_DEFAULT_MODEL = "smollm2-scorer"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", type=Path, help='JSON lines: texts, {"text": …} or {"input_ids": […]}')
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where the scores go (default: INPUT.scores.jsonl)"
    )
    parser.add_argument("--resume", action="store_true", help="go on after the lines that are in the output")
    parser.add_argument(
        "--concurrency", type=int, default=16, metavar="N", help="requests at once (default: %(default)s)"
    )
    parser.add_argument(
        "--retry-seconds",
        type=float,
        default=60.0,
        metavar="S",
        help="how long a line asks again while the server is away (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print the sums as one JSON object")
    parser.add_argument("--model", default=_DEFAULT_MODEL, help="the scorer's served name (default: %(default)s)")
    parser.add_argument(
        "--url", help="host:port for gRPC (default: HOST with GRPC_PORT of the environment, else 127.0.0.1:8001)"
    )


def run(args: argparse.Namespace) -> int:
    """Score the file; 0 when every line was scored, 1 when some failed through us, 2 through the caller alone.

    Raises:
        CallerMistake: a file cannot be used, or the output is another input's.
        ServeError: the server is not there, or left and stayed away; what is done is in the output.
    """
    if args.concurrency < 1:
        raise CallerMistake(f"--concurrency {args.concurrency}: it must be at least 1.")
    path = args.output or args.input.with_name(f"{args.input.name}.scores.jsonl")
    if path.exists() and path.samefile(args.input):
        raise CallerMistake(f"output '{path}': it is the input; choose another file.")
    total = sum(1 for _ in read_score_lines(args.input))
    with BatchOutput(path, resume=args.resume) as output:
        before = len(output.done)
        rest = _rest(read_score_lines(args.input), output)
        progress = Progress(sys.stderr, args.input.name, total, before)
        try:
            asyncio.run(_run(args, rest, output, progress))
        except (KeyboardInterrupt, ServeError):
            progress.close()
            if output.count:
                print(f"stopped: {output.count} of {total} lines are in {path}; --resume goes on.", file=sys.stderr)
            raise
        progress.close()
    _report(args, path, total, progress)
    return progress.tally.exit_code


async def _run(args: argparse.Namespace, lines: Iterator[ScoreLine], output: BatchOutput, progress: Progress) -> None:
    args.http = False
    client = ScoreClient(url_of(args), model=args.model, retry_seconds=args.retry_seconds)
    try:
        async with aclosing(in_order(lines, client.answer, args.concurrency)) as outcomes:
            async for outcome in outcomes:
                output.write(outcome.result)
                progress.add(outcome)
    finally:
        await client.close()


def _rest(lines: Iterator[ScoreLine], output: BatchOutput) -> Iterator[ScoreLine]:
    """What is left to score; the lines before it must be the ones the output answers."""
    for place, found in enumerate(output.done, 1):
        line = next(lines, None)
        if line is None or found != line.identity():
            there = "nothing" if line is None else repr(line.identity())
            raise CallerMistake(
                f"output line {place} answers {found!r}, and the input has {there} there: it is another input's "
                "output; choose another file."
            )
    return lines


def _report(args: argparse.Namespace, path: Path, total: int, progress: Progress) -> None:
    """Sums over the whole output, whichever run wrote it."""
    results = [json.loads(raw) for raw in path.read_bytes().splitlines()]
    scored: list[dict[str, Any]] = [result for result in results if result["error"] is None]
    tokens = sum(result["tokens"] for result in scored)
    log_prob = sum(result["log_prob"] for result in scored)
    record = {
        "lines": total,
        "scored": len(scored),
        "errors": len(results) - len(scored),
        "tokens": tokens,
        "log_prob": log_prob,
        "perplexity": perplexity(log_prob, tokens),
        "seconds": round(progress.seconds, 3),
        "output": str(path),
    }
    if args.json:
        print(json.dumps(record))
        return
    said = "none" if record["perplexity"] is None else f"{record['perplexity']:.4f}"
    print(
        f"{path}: {len(scored)} of {total} lines scored, {record['errors']} errors; {tokens} tokens, log-likelihood "
        f"{log_prob:.2f}, perplexity {said}"
    )
