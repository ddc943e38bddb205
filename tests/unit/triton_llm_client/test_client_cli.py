"""generate and chat through the verb table, against the scripted Triton."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

from triton_llm.cli import main
from triton_llm_client.conversation import Conversation

WAIT_SECONDS = 60.0  # only catches hangs


def test_generate_streams_to_standard_output(triton: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--max-tokens", "5", "--stop", "a", "--stop", "b"]
    assert main(["generate", "words The| sun", "--url", triton.grpc_url, *options]) == 0
    assert capsys.readouterr().out == "The sun\n"
    inputs = triton.requests[0]["inputs"]
    assert inputs["stream"] is True
    assert inputs["max_tokens"] == 5


@pytest.mark.parametrize("wire", [[], ["--http"]])
def test_generate_whole_and_as_json(triton: Any, capsys: pytest.CaptureFixture[str], wire: list[str]) -> None:
    address = triton.http_url.removeprefix("http://") if wire else triton.grpc_url
    where = ["--url", address, *wire]
    assert main(["generate", "words a|b", "--no-stream", *where]) == 0
    assert capsys.readouterr().out == "ab\n"
    assert main(["generate", "words a|b", "--json", "--seed", "3", "--temperature", "0.7", *where]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["text"], answer["finish_reason"], answer["output_ids"]) == ("ab", "length", [0, 1])
    assert triton.requests[1]["inputs"]["seed"] == 3


def test_generate_takes_standard_input_and_chat(
    triton: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe"))
    assert main(["generate", "-", "--chat", "--url", triton.grpc_url]) == 0
    assert json.loads(triton.requests[0]["inputs"]["messages"]) == [{"role": "user", "content": "from a pipe"}]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["error [UNAVAILABLE queue_full] queue: full; ask later."], 1, "[UNAVAILABLE queue_full] queue: full"),
        (["error [INVALID_ARG empty_prompt] prompt: empty."], 2, "[INVALID_ARG empty_prompt]"),
        (["words a", "--model", "nobody"], 2, "nobody"),
        (["words a", "--url", "ftp://x"], 2, "scheme 'ftp'"),
        (["words a", "--url", "127.0.0.1:9"], 1, "make serve"),
        (["words a", "--seed", "-1"], 2, "seed"),
    ],
)
def test_errors_are_one_line_with_the_right_code(
    triton: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    where = [] if "--url" in arguments else ["--url", triton.grpc_url]
    assert main(["generate", *arguments, *where]) == code
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1


def test_the_environment_names_the_default_address(
    triton: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST", "0.0.0.0")
    monkeypatch.setenv("GRPC_PORT", triton.grpc_url.rpartition(":")[2])
    monkeypatch.setenv("HTTP_PORT", triton.http_url.rpartition(":")[2])
    assert main(["generate", "words g"]) == 0
    assert main(["generate", "words h", "--http"]) == 0
    assert capsys.readouterr().out == "g\nh\n"


def test_chat_keeps_the_conversation(
    triton: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["first", "", "second", "/system Be brief.", "third", "/reset", "fourth", "/nonsense", "/exit", "never"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    assert main(["chat", "--url", triton.grpc_url, "--system", "Be kind."]) == 0
    sent = [json.loads(request["inputs"]["messages"]) for request in triton.requests]
    kind, brief = {"role": "system", "content": "Be kind."}, {"role": "system", "content": "Be brief."}
    ask = [{"role": "user", "content": text} for text in ("first", "second", "third", "fourth")]
    ok = {"role": "assistant", "content": "ok"}
    assert sent == [
        [kind, ask[0]],
        [kind, ask[0], ok, ask[1]],
        [brief, ask[0], ok, ask[1], ok, ask[2]],
        [brief, ask[3]],
    ]
    assert "'/nonsense' is no command here" in capsys.readouterr().out


def test_chat_where_nothing_is_served_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--url", "127.0.0.1:9"]) == 1
    assert "make serve" in capsys.readouterr().err


def test_a_turn_without_an_answer_is_forgotten() -> None:
    conversation = Conversation()
    with suppress(ZeroDivisionError), conversation.turn("lost"):
        raise ZeroDivisionError
    with suppress(ZeroDivisionError), conversation.turn("kept") as answer:
        answer.text = "half"
        raise ZeroDivisionError
    assert conversation.messages == [
        {"role": "user", "content": "kept"},
        {"role": "assistant", "content": "half"},
    ]


def test_ctrl_c_stops_the_answer_here_and_there_and_not_the_program(triton: Any) -> None:
    triton.chat_command = "endless"
    with Terminal(["chat", "--url", triton.grpc_url]) as terminal:
        terminal.wait_for("> ")
        terminal.type("go on for ever\n")
        terminal.wait_for("xxx")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("[stopped]")
        assert triton.left.wait(WAIT_SECONDS)
        triton.chat_command = "words ok"
        terminal.wait_for("> ")
        terminal.type("again\n")
        terminal.wait_for("ok")
        terminal.wait_for("> ")
        terminal.type("\x04")  # Ctrl-D
        assert terminal.process.wait(WAIT_SECONDS) == 0
    messages = json.loads(triton.requests[-1]["inputs"]["messages"])
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert set(messages[1]["content"]) == {"x"}


class Terminal:
    """A verb of ours on a pseudo-terminal."""

    def __init__(self, arguments: list[str]) -> None:
        self._master, slave = pty.openpty()
        command = [sys.executable, "-m", "triton_llm.cli", *arguments]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self._seen = ""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the text was printed; what was printed before it counts no more."""
        with self._news:
            if not self._news.wait_for(lambda: text in self._seen, WAIT_SECONDS):
                raise AssertionError(f"waited for {text!r}, saw {self._seen[-500:]!r}")
            self._seen = self._seen.partition(text)[2]

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # the other side is closed
                return
            with self._news:
                self._seen += piece.decode(errors="replace")
                self._news.notify_all()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._master)
