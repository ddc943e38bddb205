"""``triton-llm generate``: one prompt, its answer on standard output."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing
from dataclasses import asdict

from triton_llm_client.cli_options import add_sampling_arguments, add_server_arguments, client_of, params_of
from triton_llm_client.client import Client
from triton_llm_client.params import GenerateParams, Prompt

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", help="the prompt; - reads it from standard input")
    parser.add_argument("--chat", action="store_true", help="send the prompt as one user message")
    output = parser.add_argument_group("output")
    output.add_argument("--no-stream", action="store_true", help="print the answer once it is whole")
    output.add_argument("--json", action="store_true", help="print one JSON object: text, ids, counts, timings")
    add_sampling_arguments(parser)
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Generate and print; raises ServeError or CallerMistake, which carry their exit code."""
    prompt = _prompt(args)
    with client_of(args) as client:
        try:
            _answer(client, prompt, params_of(args), args)
        except BrokenPipeError:  # the reader has what it wanted; nothing more can be written
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _prompt(args: argparse.Namespace) -> Prompt:
    text = sys.stdin.read() if args.prompt == "-" else args.prompt
    return [{"role": "user", "content": text}] if args.chat else text


def _answer(client: Client, prompt: Prompt, params: GenerateParams, args: argparse.Namespace) -> None:
    if args.json:
        on_chunk = None if args.no_stream else _ignore
        print(json.dumps(asdict(client.generate(prompt, params, on_chunk=on_chunk)), ensure_ascii=False))
    elif args.no_stream:
        print(client.generate(prompt, params).text)
    else:
        with closing(client.stream(prompt, params)) as chunks:
            for chunk in chunks:
                print(chunk.text, end="", flush=True)
        print()


def _ignore(_: object) -> None:
    """Streams, so that the time to the first token is measured."""
