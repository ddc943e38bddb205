from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

import pytest

from python_llm.contract import ROLES
from triton_launcher.cli import add_arguments, read_options
from triton_launcher.errors import LaunchRefused
from triton_launcher.options import ServeOptions
from triton_launcher.progress import LogReader, log_tail, welcome


def options(*arguments: str) -> ServeOptions:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return read_options(parser.parse_args(arguments))


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOST", "HTTP_PORT", "GRPC_PORT", "METRICS_PORT", "HEALTH_PORT", "GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_no_arguments_are_the_defaults() -> None:
    assert options() == ServeOptions(gateway_port=9000)
    assert options("--no-gateway") == ServeOptions()


def test_ports_and_host_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PORT", "18000")
    monkeypatch.setenv("HOST", "127.0.0.2")
    assert options().ports.http == 18000
    assert options().host == "127.0.0.2"
    assert options("--http-port", "18001").ports.http == 18001


def test_a_port_in_the_environment_that_is_no_number_is_the_callers_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_PORT", "eight")
    with pytest.raises(SystemExit) as ended:
        options()
    assert ended.value.code == 2


def test_models_repeat_and_what_follows_two_dashes_is_passed_on() -> None:
    read = options("--model", "a", "--model", "b", "--drain-seconds", "3", "--", "--log-verbose=1", "--id=x")
    assert read.models == ("a", "b")
    assert read.drain_seconds == 3.0
    assert read.tritonserver_arguments == ("--log-verbose=1", "--id=x")


def test_a_word_that_is_no_option_is_refused() -> None:
    with pytest.raises(LaunchRefused, match="argument 'smollm2'"):
        options("smollm2")


def test_the_welcome_names_the_ports_and_a_curl_line() -> None:
    text = welcome(ServeOptions(host="0.0.0.0"), ["a", "a-generator"])
    assert "http://127.0.0.1:8003/ready" in text
    assert "curl -N http://127.0.0.1:8000/v2/models/a-generator/generate_stream -d '{" in text


def test_where_only_scorers_are_served_the_curl_line_asks_one_for_log_probs() -> None:
    line = next(line for line in welcome(ServeOptions(), ["b", "a"]).splitlines() if "curl" in line)
    program, url, flag, body = shlex.split(line)
    assert (program, url, flag) == ("curl", "http://127.0.0.1:8000/v2/models/a/infer", "-d")
    request = json.loads(body)
    assert [row["name"] for row in request["inputs"]] == ["text_input"]
    named = {row["name"] for row in request["outputs"]}
    assert named <= {row.name for row in ROLES["scorer"].outputs}
    assert "logits" not in named


def test_the_log_is_read_line_by_line_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "tritonserver.log"
    reader = LogReader(path)
    assert list(reader.news()) == []
    path.write_text('I1 7 model_lifecycle.cc:472] "loading: a-generator:1"\nI1 7 x.cc:1] "successfully lo')
    assert list(reader.news()) == ["  loading a-generator"]
    with path.open("a") as log:
        log.write("aded 'a-generator'\"\n")
    assert list(reader.news()) == ["  loaded  a-generator"]


def test_the_tail_names_the_whole_log(tmp_path: Path) -> None:
    path = tmp_path / "tritonserver.log"
    path.write_text("\n".join(f"line {index}" for index in range(100)))
    assert "line 99" in log_tail(path)
    assert "line 1\n" not in log_tail(path)
    assert log_tail(path).endswith(f"The whole log: {path}")
