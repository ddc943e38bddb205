"""What cannot work is refused before anything starts: exit code 2, one clear line, nothing left behind."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from fake_llm_repository import FAKE_BACKEND, write_artifact, write_entry
from server_under_test import assert_nothing_remains, free_ports, running_server
from triton_launcher.run_folder import read_state


def serve(repository: Path, tmp_path: Path, *extra: str, http_port: int | None = None) -> tuple[int, str]:
    """Exit code and output of a ``serve`` that is expected to end by itself."""
    ports = free_ports(4)
    command = [sys.executable, "-m", "triton_llm.cli", "serve", "--model-repository", str(repository)]
    command += ["--run-dir", str(tmp_path / "run"), "--backend", str(FAKE_BACKEND)]
    for name, port in zip(("http", "grpc", "metrics", "health"), ports, strict=True):
        command += [f"--{name}-port", str(http_port if http_port and name == "http" else port)]
    ended = subprocess.run([*command, *extra], capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout + ended.stderr


def test_a_port_in_use(repository: Path, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        code, text = serve(repository, tmp_path, http_port=port)
    assert code == 2
    assert f"http port {port} on 127.0.0.1: another process listens there" in text
    assert not (tmp_path / "run").exists()


def test_an_artifact_edited_by_a_byte(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "engines/fake/weights.bin").write_bytes(b"weightz")
    code, text = serve(repository, tmp_path)
    assert code == 2
    assert "weights.bin" in text
    assert not (tmp_path / "run").exists()


def test_an_artifact_of_another_version(tmp_path: Path) -> None:
    artifact = write_artifact(tmp_path / "engines/old", kind="openvino-ir", built_by="1999.1.0")
    write_entry(tmp_path / "repository", "old-generator", artifact)
    code, text = serve(tmp_path / "repository", tmp_path)
    assert code == 2
    assert "built by openvino 1999.1.0, this runtime has openvino" in text


def test_no_repository(tmp_path: Path) -> None:
    code, text = serve(tmp_path / "none", tmp_path)
    assert code == 2
    assert "no such folder" in text


def test_a_run_folder_that_is_in_use(repository: Path, tmp_path: Path) -> None:
    with running_server(repository, run_dir=tmp_path / "run", extra=["--backend", str(FAKE_BACKEND)]) as server:
        code, text = serve(repository, tmp_path)
        assert code == 2
        assert f"(process {server.process.pid}) uses it" in text
        assert server.is_ready()


def test_an_option_that_tritonserver_lacks(repository: Path, tmp_path: Path) -> None:
    code, text = serve(repository, tmp_path, "--", "--log-verbos=1")
    assert code == 2
    assert "tritonserver option '--log-verbos=1'" in text
    assert "did you mean --log-verbose" in text


def test_a_triton_that_does_not_start_shows_the_end_of_its_log(repository: Path, tmp_path: Path) -> None:
    code, text = serve(repository, tmp_path, "--", "--http-thread-count=many")
    assert code == 1
    assert "before it was ready" in text
    assert "many" in text
    assert str(tmp_path / "run/tritonserver.log") in text
    assert_nothing_remains(read_state(tmp_path / "run").marker)


def test_a_model_that_does_not_load_says_why(repository: Path, tmp_path: Path) -> None:
    (repository / "fake-generator/config.pbtxt").write_text('backend: "none_such"\n')
    code, text = serve(repository, tmp_path)
    assert code == 1
    assert "none_such" in text
    assert_nothing_remains(read_state(tmp_path / "run").marker)
