"""``triton-llm chat``: a conversation in the terminal.

The server applies the checkpoint's chat template; this side keeps the messages. Ctrl-C stops the answer, here and
on the server, and what came of it stays in the conversation; Ctrl-D leaves.
"""

from __future__ import annotations

import argparse
import contextlib
import sys

from python_llm.errors import ServeError, Unavailable
from triton_llm_client.cli_options import add_server_arguments, client_of
from triton_llm_client.client import Client
from triton_llm_client.conversation import Conversation
from triton_llm_client.param_options import add_sampling_arguments, params_of
from triton_llm_client.params import GenerateParams

__all__ = ["Chat", "add_arguments", "run"]

_HELP = "/reset forgets the conversation, /system TEXT sets the system message (no TEXT: none), /exit leaves."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", default="", metavar="TEXT", help="the system message")
    parser.epilog = f"In the chat: {_HELP} Ctrl-C stops the answer, Ctrl-D leaves."
    add_sampling_arguments(parser)
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Chat until the user leaves; raises Unavailable when the model is not served there."""
    with client_of(args) as client:
        if not client.ready():
            raise Unavailable(
                "not_ready",
                f"model '{args.model}' at '{client.url}': it is not served there now; start it with 'make serve', or "
                "name another with --url and --model.",
            )
        return Chat(client, params_of(args), args.system).loop()


class Chat:
    """Reads lines, sends messages, prints answers. Errors end it only where nobody is there to read them."""

    def __init__(self, client: Client, params: GenerateParams, system: str = "") -> None:
        self._client = client
        self._params = params
        self._conversation = Conversation(system)
        self._interactive = sys.stdin.isatty()

    def loop(self) -> int:
        if self._interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  (line editing and history for input())
            print(_HELP)
        while True:
            try:
                line = input("> " if self._interactive else "").strip()
            except EOFError:
                return 0
            except KeyboardInterrupt:
                print("\nCtrl-D leaves.")
                continue
            if line == "/exit":
                return 0
            self._take(line)

    def _take(self, line: str) -> None:
        if line.startswith("/"):
            self._command(*line.partition(" ")[::2])
        elif line:
            self._ask(line)

    def _command(self, name: str, text: str) -> None:
        if name == "/reset":
            self._conversation.reset()
        elif name == "/system":
            self._conversation.system = text.strip()
        else:
            print(_HELP if name == "/help" else f"'{name}' is no command here. {_HELP}")

    def _ask(self, question: str) -> None:
        try:
            self._answer(question)
        except KeyboardInterrupt:
            print(" [stopped]")
        except ServeError as error:
            if not self._interactive:
                raise
            print(f"error: {error}", file=sys.stderr)

    def _answer(self, question: str) -> None:
        with self._conversation.turn(question) as answer:
            chunks = self._client.stream(self._conversation.messages, self._params)
            with contextlib.closing(chunks):
                for chunk in chunks:
                    answer.text += chunk.text
                    print(chunk.text, end="", flush=True)
        print()
