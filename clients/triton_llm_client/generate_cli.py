"""``triton-llm generate``: one prompt, its answer on standard output."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing

from python_llm.errors import CallerMistake
from triton_llm_client.cli_options import add_server_arguments, client_of
from triton_llm_client.client import Client
from triton_llm_client.param_options import add_answer_arguments, add_sampling_arguments, params_of, told_options
from triton_llm_client.params import GenerateParams
from triton_llm_client.prompts import Prompt
from triton_llm_client.results import Completion
from triton_llm_client.results_json import completion_json

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", help="the prompt; - reads it from standard input")
    parser.add_argument("--chat", action="store_true", help="send the prompt as one user message")
    parser.add_argument("--request-id", metavar="ID", help="the request's id, by which others may stop it")
    output = parser.add_argument_group("output")
    output.add_argument("--no-stream", action="store_true", help="print the answer once it is whole")
    output.add_argument(
        "--json", action="store_true", help="print one JSON object: choices, ids, log-probs, counts, timings"
    )
    add_sampling_arguments(parser)
    add_answer_arguments(parser)
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Generate and print; raises ServeError or CallerMistake, which carry their exit code."""
    if not args.json and (told := told_options(args)):
        raise CallerMistake(f"{told[0]}: only --json prints what it asks for; add --json, or leave it out.")
    prompt, params = _prompt(args), params_of(args)
    with client_of(args) as client:
        try:
            _answer(client, prompt, params, args)
        except BrokenPipeError:  # the reader has what it wanted; nothing more can be written
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _prompt(args: argparse.Namespace) -> Prompt:
    text = sys.stdin.read() if args.prompt == "-" else args.prompt
    return [{"role": "user", "content": text}] if args.chat else text


def _answer(client: Client, prompt: Prompt, params: GenerateParams, args: argparse.Namespace) -> None:
    several = max(params.num_return_sequences or 1, params.beam_width or 1) > 1
    if args.json:
        on_chunk = None if args.no_stream or (params.beam_width or 1) > 1 else _ignore
        completion = client.generate(prompt, params, request_id=args.request_id, on_chunk=on_chunk)
        print(json.dumps(completion_json(completion), ensure_ascii=False))
    elif several:
        _print_choices(client.generate(prompt, params, request_id=args.request_id))
    elif args.no_stream:
        print(client.generate(prompt, params, request_id=args.request_id).text)
    else:
        with closing(client.stream(prompt, params, request_id=args.request_id)) as chunks:
            for chunk in chunks:
                print(chunk.text, end="", flush=True)
        print()


def _print_choices(completion: Completion) -> None:
    """Whole, one after the other: streamed they would mix."""
    for choice in completion.choices:
        print(f"[{choice.index}] {choice.text}")


def _ignore(_: object) -> None:
    """Streams, so that the time to the first token is measured."""
