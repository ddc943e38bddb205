"""``triton-llm batch``: a file of requests in, a file of answers out, in the same order.

One line of output per line of input. A run that ended early goes on with ``--resume``; ``--retry-errors`` also asks
again what ended in an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
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
        "--retry-errors", action="store_true", help="as --resume, and first ask again the lines that ended in an error"
    )
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
    with BatchOutput(args.output, resume=args.resume or args.retry_errors) as output:
        todo = _todo(read_lines(args.input), output, retry_errors=args.retry_errors)
        progress = Progress(sys.stderr, args.input.name, total, len(output.done) - len(todo.again))
        try:
            asyncio.run(_run(args, todo, output, progress))
        except (KeyboardInterrupt, ServeError) as error:
            progress.close()
            if progress.tally.answered or output.done or isinstance(error, KeyboardInterrupt):
                print(_stopped(args, total, output), file=sys.stderr)
            raise
        progress.close()
    _report(args, total, len(output.done) - len(todo.again), progress)
    return progress.tally.exit_code


@dataclass(frozen=True)
class _Todo:
    """Lines to ask again, by their place in the output, and lines that are not in it yet."""

    again: Mapping[int, Line]
    rest: Iterable[Line]


async def _run(args: argparse.Namespace, todo: _Todo, output: BatchOutput, progress: Progress) -> None:
    transport = open_transport(url_of(args))
    batch = Batch(transport, model=args.model, ensemble=args.ensemble, retry_seconds=args.retry_seconds)
    try:
        try:
            async with aclosing(in_order(todo.again.values(), batch.answer, args.concurrency)) as outcomes:
                places = iter(todo.again)
                async for outcome in outcomes:
                    output.replace(next(places), outcome.result)
                    progress.add(outcome)
        finally:
            output.settle()
        async with aclosing(in_order(todo.rest, batch.answer, args.concurrency)) as outcomes:
            async for outcome in outcomes:
                output.write(outcome.result)
                progress.add(outcome)
    finally:
        await transport.close()


def _todo(lines: Iterator[Line], output: BatchOutput, *, retry_errors: bool) -> _Todo:
    """What is left to ask; the lines before it must be the ones the output answers."""
    again: dict[int, Line] = {}
    failed = set(output.failed)
    for place, found in enumerate(output.done):
        line = next(lines, None)
        # A line that was broken and was mended since may have got its custom_id only now.
        known = (None, line.identity(), *([line.number] * (place in failed))) if line else ()
        if line is None or found not in known:
            there = "nothing" if line is None else repr(line.identity())
            raise CallerMistake(
                f"output line {place + 1} answers {found!r}, and the input has {there} there: it is another input's "
                "output; choose another file."
            )
        if retry_errors and place in failed:
            again[place] = line
    return _Todo(again, lines)


def _stopped(args: argparse.Namespace, total: int, output: BatchOutput) -> str:
    option = "--retry-errors" if args.retry_errors else "--resume"
    return f"stopped: {output.count} of {total} lines are in {args.output}; {option} goes on."


def _report(args: argparse.Namespace, total: int, before: int, progress: Progress) -> None:
    tally = progress.tally
    if args.json:
        record = {
            "lines": total,
            "answered_before": before,
            "answered": tally.answered,
            "errors": tally.errors,
            "output_tokens": tally.output_tokens,
            "seconds": round(progress.seconds, 3),
            "output": str(args.output),
        }
        print(json.dumps(record))
        return
    there = f", {before} were there" if before else ""
    print(
        f"{args.output}: {tally.answered} of {total} lines answered, {tally.errors} errors{there}; "
        f"{tally.output_tokens} tokens in {progress.seconds:.1f} s",
        file=sys.stderr,
    )
