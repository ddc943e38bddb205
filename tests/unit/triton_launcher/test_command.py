from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from python_llm.settings import CONTROL_SECRET_VARIABLE, GRPC_ADDRESS_VARIABLE
from triton_launcher.command import Secrets, build_command, build_environment
from triton_launcher.discovery import Triton
from triton_launcher.errors import LaunchRefused
from triton_launcher.options import ServeOptions

TRITON = Triton(Path("/t/bin/tritonserver"), Path("/t/backends"), None, Path("/t/libs"))
SECRETS = Secrets("the-secret", "the-key")
FLAGS = frozenset(
    (
        *("model-repository", "backend-directory", "model-control-mode", "load-model", "exit-timeout-secs"),
        *("http-address", "http-port", "grpc-address", "grpc-port", "metrics-address", "metrics-port"),
        *("backend-config", "http-restricted-api", "grpc-restricted-protocol", "http-thread-count"),
    )
)


def command(options: ServeOptions, flags: frozenset[str] = FLAGS) -> tuple[str, ...]:
    return build_command(TRITON, flags, options, ["a", "b"], Path("/run/backends"), "prefix_1_", SECRETS)


def test_models_are_loaded_one_by_one_and_the_prefix_is_set() -> None:
    line = command(ServeOptions(tritonserver_arguments=("--log-verbose=1",)))
    assert line[0] == "/t/bin/tritonserver"
    assert {"--model-control-mode=explicit", "--load-model=a", "--load-model=b"} <= set(line)
    assert "--backend-config=python,shm-region-prefix-name=prefix_1_" in line
    assert line[-1] == "--log-verbose=1"


def test_pools_are_sized_and_the_callers_option_comes_once() -> None:
    sized = [argument for argument in command(ServeOptions()) if "thread-count" in argument]
    assert [argument.partition("=")[0] for argument in sized] == ["--http-thread-count"]  # this Triton has no other
    given = command(ServeOptions(tritonserver_arguments=("--http-thread-count=9",)))
    assert [argument for argument in given if "thread-count" in argument] == ["--http-thread-count=9"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_on_loopback_nothing_is_restricted(host: str) -> None:
    assert not [argument for argument in command(ServeOptions(host=host)) if "restricted" in argument]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7"])
def test_beyond_loopback_the_administrative_apis_want_a_key(host: str) -> None:
    line = command(ServeOptions(host=host))
    value = "model-repository,shared-memory,trace,logging:triton-llm-admin-key=the-key"
    assert {f"--http-restricted-api={value}", f"--grpc-restricted-protocol={value}"} <= set(line)
    assert {f"--http-address={host}", f"--grpc-address={host}", f"--metrics-address={host}"} <= set(line)


def test_the_response_cache_is_asked_for_where_an_entry_wants_one(tmp_path: Path) -> None:
    (tmp_path / "caches" / "local").mkdir(parents=True)
    triton = replace(TRITON, backends=tmp_path / "backends")
    flags = FLAGS | {"cache-directory", "cache-config"}
    for size, expected in ((0, []), (4096, [f"--cache-directory={triton.caches}", "--cache-config=local,size=4096"])):
        wants = ServeOptions(response_cache_bytes=size)
        line = build_command(triton, flags, wants, ["a"], Path("/run/backends"), "prefix_1_", SECRETS)
        assert [argument for argument in line if argument.startswith("--cache")] == expected


@pytest.mark.parametrize("flags", [FLAGS, FLAGS | {"cache-directory", "cache-config"}])
def test_a_response_cache_this_tritonserver_lacks_is_refused(flags: frozenset[str]) -> None:
    with pytest.raises(LaunchRefused, match=r"scorer_cache_bytes 4096: .*no local response cache \(in '/t/caches'\)"):
        command(ServeOptions(response_cache_bytes=4096), flags)


def test_options_this_tritonserver_lacks_are_left_out() -> None:
    line = command(ServeOptions(), FLAGS - {"metrics-address"})
    assert not [argument for argument in line if argument.startswith("--metrics-address")]


def test_a_restriction_this_tritonserver_lacks_is_refused_and_not_left_out() -> None:
    with pytest.raises(LaunchRefused, match="http-restricted-api"):
        command(ServeOptions(host="0.0.0.0"), FLAGS - {"http-restricted-api"})


def test_the_environment_carries_secret_marker_libraries_and_packages() -> None:
    inherited = {"PATH": "/bin", "LD_LIBRARY_PATH": "/l", "PYTHONPATH": "/p", "KEEP": "1"}
    made = build_environment(TRITON, "marker", SECRETS, "127.0.0.1:9001", inherited)
    assert made[CONTROL_SECRET_VARIABLE] == "the-secret"
    assert made[GRPC_ADDRESS_VARIABLE] == "127.0.0.1:9001"
    assert made["TRITON_LLM_RUN"] == "marker"
    assert made["LD_LIBRARY_PATH"] == "/t/libs:/l"
    assert made["PATH"].endswith(f"{os.pathsep}/bin")
    assert Path(made["PYTHONPATH"].split(os.pathsep)[0], "python_llm/model.py").is_file()
    assert "/p" in made["PYTHONPATH"].split(os.pathsep)
    assert made["KEEP"] == "1"
    assert made["OMP_NUM_THREADS"] == "1"


def test_secrets_do_not_show() -> None:
    assert "the-" not in repr(SECRETS)


@pytest.mark.parametrize("argument", ["--http-port=9", "--model-repository", "--log-file=x"])
def test_what_the_launcher_sets_cannot_be_passed_on(argument: str) -> None:
    with pytest.raises(LaunchRefused, match="the launcher sets it itself; use the launcher's --"):
        ServeOptions(tritonserver_arguments=(argument,))


@pytest.mark.parametrize("name", ["stall", "control", "start", "probe", "status", "drain"])
def test_seconds_must_make_sense(name: str) -> None:
    with pytest.raises(LaunchRefused, match=f"--{name}-seconds -1"):
        ServeOptions(**{f"{name}_seconds": -1.0})  # type: ignore[arg-type]
