"""``triton-llm batch``: a file of requests in, a file of answers out, in the same order.

One line of output per line of input. A run that ended early goes on with ``--resume``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from pathlib import Path

from python_llm.errors import CallerMistake, ServeError
from triton_llm_client.batch import Batch, in_order
from triton_llm_client.batch_line import Line, read_lines
from triton_llm_client.batch_output import BatchOutput
from triton_llm_client.batch_progress import Progress
from triton_llm_client.cli_options import add_server_arguments, url_of
from triton_llm_client.transport import open_transport

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", type=Path, help="JSON lines: OpenAI batch lines, objects with a prompt, or texts")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="where the answers go")
    parser.add_argument("--resume", action="store_true", help="go on after the lines that are in the output")
    parser.add_argument(
        "--concurrency", type=int, default=16, metavar="N", help="requests at once (default: %(default)s)"
    )
    parser.add_argument(
        "--retry-seconds",
        type=float,
        default=60.0,
        metavar="S",
        help="how long a line asks again while the queue is full or the server away (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print the counts as one JSON object")
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the batch; 0 when every line was answered, 1 when some failed through us, 2 through the caller alone.

    Raises:
        CallerMistake: a file cannot be used, or the output is another input's.
        ServeError: the server is not there, or left and stayed away; what is done is in the output.
    """
    if args.concurrency < 1:
        raise CallerMistake(f"--concurrency {args.concurrency}: it must be at least 1.")
    if args.output.exists() and args.output.samefile(args.input):
        raise CallerMistake(f"output '{args.output}': it is the input; choose another file.")
    total = sum(1 for _ in read_lines(args.input))
    with BatchOutput(args.output, resume=args.resume) as output:
        rest = _after(read_lines(args.input), output)
        progress = Progress(sys.stderr, args.input.name, total, len(output.done))
        try:
            asyncio.run(_run(args, rest, output, progress))
        except (KeyboardInterrupt, ServeError) as error:
            progress.close()
            if progress.tally.answered or output.done or isinstance(error, KeyboardInterrupt):
                print(_stopped(args, total, output, progress), file=sys.stderr)
            raise
        progress.close()
    _report(args, total, output, progress)
    return progress.tally.exit_code


async def _run(args: argparse.Namespace, lines: Iterable[Line], output: BatchOutput, progress: Progress) -> None:
    transport = open_transport(url_of(args))
    batch = Batch(transport, model=args.model, ensemble=args.ensemble, retry_seconds=args.retry_seconds)
    try:
        async with aclosing(in_order(lines, batch.answer, args.concurrency)) as outcomes:
            async for outcome in outcomes:
                output.write(outcome.result)
                progress.add(outcome)
    finally:
        await transport.close()


def _after(lines: Iterator[Line], output: BatchOutput) -> Iterator[Line]:
    """The lines that are not answered yet; those before them must be the ones the output answers."""
    for place, found in enumerate(output.done, 1):
        line = next(lines, None)
        if line is None or found not in (None, line.identity()):
            there = "nothing" if line is None else repr(line.identity())
            raise CallerMistake(
                f"output line {place} answers {found!r}, and the input has {there} there: it is another input's "
                "output; choose another file."
            )
    return lines


def _stopped(args: argparse.Namespace, total: int, output: BatchOutput, progress: Progress) -> str:
    done = len(output.done) + progress.tally.answered + progress.tally.errors
    return f"stopped: {done} of {total} lines are in {args.output}; --resume goes on."


def _report(args: argparse.Namespace, total: int, output: BatchOutput, progress: Progress) -> None:
    tally = progress.tally
    if args.json:
        record = {
            "lines": total,
            "answered_before": len(output.done),
            "answered": tally.answered,
            "errors": tally.errors,
            "output_tokens": tally.output_tokens,
            "seconds": round(progress.seconds, 3),
            "output": str(args.output),
        }
        print(json.dumps(record))
        return
    before = f", {len(output.done)} were there" if output.done else ""
    print(
        f"{args.output}: {tally.answered} of {total} lines answered, {tally.errors} errors{before}; "
        f"{tally.output_tokens} tokens in {progress.seconds:.1f} s",
        file=sys.stderr,
    )
