"""What a container runs, without a server: its steps, its signals, its output."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from build_engines import cli as build_cli
from triton_launcher import container_cli
from triton_launcher.container_cli import _BUILD_FLAGS, _steps
from triton_launcher.errors import LaunchRefused
from triton_launcher.foreground import run_in_foreground


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    container_cli.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODEL", "NAME", "ENGINES", "LOG_FORMAT", *_BUILD_FLAGS):
        monkeypatch.delenv(name, raising=False)


def test_a_missing_engine_is_built_then_entered_then_served(tmp_path: Path) -> None:
    steps = list(_steps(arguments("--model", "org/My-Model", "--engines", str(tmp_path), "--set", "threads=2")))
    assert [step[0] for step in steps] == ["build", "repo", "serve"]
    assert steps[0][:4] == ["build", "org/My-Model", "--name", "My-Model"]
    assert steps[1][-2:] == ["--set", "threads=2"]
    assert steps[2][:3] == ["serve", "--model", "My-Model"]


def test_an_engine_that_is_there_is_not_built(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "artifact.json").write_text("{}", "utf-8")
    given = arguments("--name", "m", "--engines", str(tmp_path), "--", "--drain-seconds", "5")
    steps = list(_steps(given))
    assert [step[0] for step in steps] == ["repo", "serve"]
    assert steps[1][-2:] == ["--drain-seconds", "5"]


def test_without_a_model_the_repository_is_served_as_it_is() -> None:
    assert [step[0] for step in _steps(arguments())] == ["serve"]


@pytest.mark.parametrize(
    ("words", "said"), [(["--name", "m"], "set MODEL"), (["--build-only"], "MODEL"), (["--set", "a=1"], "MODEL")]
)
def test_nothing_to_build_from_is_refused(tmp_path: Path, words: list[str], said: str) -> None:
    with pytest.raises(LaunchRefused, match=said):
        list(_steps(arguments("--engines", str(tmp_path), *words)))


def test_the_variables_are_flags_of_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for place, name in enumerate(_BUILD_FLAGS, 1):
        monkeypatch.setenv(name, str(place))
    monkeypatch.setenv("ALLOW_QUALITY_LOSS", "1")
    (build, _, _) = _steps(arguments("--model", "smollm2", "--engines", str(tmp_path)))
    parser = argparse.ArgumentParser()
    build_cli.add_arguments(parser)
    read = parser.parse_args(build[1:])
    assert (read.allow_quality_loss, read.trust_remote_code) == (True, False)
    found = [str(getattr(read, flag[2:].replace("-", "_"))) for flag in _BUILD_FLAGS.values()]
    assert found == [str(place) for place in range(1, len(_BUILD_FLAGS) + 1)]


def test_the_output_comes_line_by_line_with_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    program = f"print('said'); open({str(log)!r}, 'w').write('logged\\nunfinished'); print('end', end='')"
    assert run_in_foreground([sys.executable, "-c", program], "json", log) == 0
    found = {(record["source"], record["message"]) for record in map(json.loads, capfd.readouterr().out.splitlines())}
    assert found == {
        ("launcher", "said"),
        ("launcher", "end"),
        ("tritonserver", "logged"),
        ("tritonserver", "unfinished"),
    }


@pytest.mark.parametrize(("program", "code"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_the_exit_code_is_the_commands(program: str, code: int) -> None:
    assert run_in_foreground([sys.executable, "-c", program], "text") == code


_CHILD = (
    "import signal, sys\n"
    "signal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True), sys.exit(5)))\n"
    "print('up', flush=True)\n"
    "while True: signal.pause()"
)
_PARENT = (
    "import sys; from triton_launcher.foreground import run_in_foreground as run;"
    "sys.exit(run([sys.executable, '-c', sys.argv[1]], 'text'))"
)


def test_a_signal_reaches_the_command() -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT, _CHILD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.stdout.readline() == "told\n"
        assert process.wait(60) == 5


def test_a_stop_ends_the_step_that_runs_and_no_other_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(command: list[str], *_: object) -> int:
        ran.append(command[3])
        return 143

    monkeypatch.setattr(container_cli, "run_in_foreground", run)
    assert container_cli.run(arguments("--model", "smollm2", "--engines", str(tmp_path))) == 143
    assert ran == ["build"]
