"""docker-compose.yml, by the compose binary, and the images that it builds."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from typing import Any

import pytest
import yaml

from tests.chart.dockerfile import Dockerfile
from tests.chart.tools import ROOT, script
from triton_launcher.options import ServeOptions

DOCKER = ROOT / "deploy" / "docker"
OURS = ["Dockerfile.cpu", "Dockerfile.gateway"]


@cache
def composed(*profiles: str) -> dict[str, Any]:
    """The services as compose understands them; without profiles, those of .env."""
    chosen = [word for profile in profiles for word in ("--profile", profile)]
    command = [
        str(script("docker-compose")),
        "-f",
        str(ROOT / "docker-compose.yml"),
        *chosen,
        "config",
        "--format",
        "json",
    ]
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["services"]
    return found


@pytest.mark.parametrize(
    ("profiles", "services"),
    [
        ((), {"build-cpu", "server-cpu", "gateway"}),
        (("gpu",), {"build-gpu", "server-gpu", "gateway"}),
        (("cpu", "observe"), {"build-cpu", "server-cpu", "gateway", "prometheus", "grafana"}),
    ],
)
def test_a_profile_is_its_services(profiles: tuple[str, ...], services: set[str]) -> None:
    assert set(composed(*profiles)) == services


def everything() -> dict[str, Any]:
    return composed("cpu", "gpu", "observe")


def test_only_the_gateway_is_published_beyond_this_machine() -> None:
    beyond = {
        name
        for name, service in everything().items()
        for port in service.get("ports", ())
        if port.get("host_ip") != "127.0.0.1"
    }
    assert beyond == {"gateway"}


@pytest.mark.parametrize(
    "name", ["build-cpu", "server-cpu", "build-gpu", "server-gpu", "gateway", "prometheus", "grafana"]
)
def test_a_service_is_hardened(name: str) -> None:
    service = everything()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")
    assert not service["image"].endswith(":latest")


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_start_waits_for_the_engine_and_for_health(kind: str) -> None:
    services = everything()
    built = services[f"server-{kind}"]["depends_on"][f"build-{kind}"]
    assert built["condition"] == "service_completed_successfully"
    assert services[f"build-{kind}"]["restart"] == "no"
    assert services["gateway"]["depends_on"][f"server-{kind}"]["condition"] == "service_healthy"


def test_the_grace_is_longer_than_the_drain() -> None:
    options = ServeOptions()
    for kind in ("cpu", "gpu"):
        grace = int(everything()[f"server-{kind}"]["stop_grace_period"].rstrip("s").replace("1m0", "60"))
        assert grace > options.drain_seconds + options.exit_seconds + 3


def test_prometheus_scrapes_what_there_is() -> None:
    found = yaml.safe_load((ROOT / "deploy" / "monitoring" / "prometheus.yml").read_text("utf-8"))
    targets = {target for job in found["scrape_configs"] for one in job["static_configs"] for target in one["targets"]}
    ports = ServeOptions().ports
    assert targets == {f"server:{ports.metrics}", f"server:{ports.health}", "gateway:9000", "localhost:9090"}


@pytest.mark.parametrize("name", OURS)
def test_an_image_of_ours_is_nobodys_and_says_what_it_is(name: str) -> None:
    image = Dockerfile.read(DOCKER / name)
    assert image.image.all("USER")[-1].text == "10001:10001"
    labels = image.stage("base").settings("LABEL")
    assert {
        f"org.opencontainers.image.{word}" for word in ("title", "description", "licenses", "version", "revision")
    } <= set(labels)
    assert f'version = "{image.settings("ARG")["VERSION"]}"' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert image.stage("sbom").all("COPY")
    (health,) = image.image.all("HEALTHCHECK")
    assert "HEALTH_PORT" in health.text or "/health/live" in health.text


def test_the_cpu_image_begins_with_the_launchers_own_verb() -> None:
    base = Dockerfile.read(DOCKER / "Dockerfile.cpu").stage("base")
    assert base.all("ENTRYPOINT")[0].words == ["triton-llm", "container"]
    variables = base.settings("ENV")
    assert {variables[f"{name.upper()}_PORT"] for name in ("http", "grpc", "metrics", "health")} == {
        str(port) for port in vars(ServeOptions().ports).values()
    }


@pytest.mark.parametrize("name", OURS)
def test_the_wheel_is_made_as_that_of_the_gpu_images(name: str) -> None:
    found, like = Dockerfile.read(DOCKER / name), Dockerfile.read(DOCKER / "Dockerfile.gpu")
    assert found.stage("wheel").instructions[1:] == like.stage("wheel").instructions[1:]
    ignored = (DOCKER / f"{name}.dockerignore").read_text("utf-8")
    assert ignored == (DOCKER / "Dockerfile.gpu.dockerignore").read_text("utf-8")
