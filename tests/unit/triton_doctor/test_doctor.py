"""The doctor on a fake machine: silent where all is well, and each illness is named with its cause."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from build_engines.repository import add_entry
from fake_llm_repository import write_artifact
from fake_machine import FakeMachine
from python_llm.artifact import Artifact
from python_llm.settings import ServingConfig
from triton_doctor.checks import CHECKS, examine
from triton_doctor.checks.gpu import FIELDS
from triton_doctor.cli import report
from triton_doctor.finding import Finding
from triton_doctor.machine import Answer, Machine, Tool
from triton_doctor.self_test import bandwidth, self_test
from triton_doctor.setup import Setup
from triton_doctor.symptoms import SYMPTOMS

READY = json.dumps({"ready": True, "phase": "ready", "reasons": [], "models": {"m": "READY"}, "restarts": 0})
HEALTHY_GPU = "0, NVIDIA L4, 570.86.15, 23034, 0, 0, 16, 16, 41"
BANNER = "| NVIDIA-SMI 570.86.15    Driver Version: 570.86.15    CUDA Version: 12.8 |"
SMALL = ServingConfig(kv_cache_bytes=1 << 30)


@pytest.fixture
def ill(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path / "root")


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """Serves ``m``, whose artifact is whole."""
    add_entry("m", write_artifact(tmp_path / "engines/m"), tmp_path / "repository", SMALL)
    return Setup(tmp_path / "repository", tmp_path / "run")


def found(ill: FakeMachine, setup: Setup, state: str = "wrong") -> list[Finding]:
    return [finding for finding in examine(ill.machine(), setup) if finding.state == state]


def test_nothing_is_wrong_with_a_healthy_machine(ill: FakeMachine, setup: Setup) -> None:
    findings = examine(ill.machine(), setup)
    assert [finding for finding in findings if finding.state != "ok"] == []
    assert {finding.area for finding in findings} == set(CHECKS)
    assert report(findings).endswith("nothing wrong.")


def test_nothing_is_wrong_with_a_healthy_server(ill: FakeMachine, setup: Setup) -> None:
    ill.start_launcher(setup.run_dir)
    ill.pages = {"/ready": Answer(200, READY), "/metrics": Answer(200, "triton_llm_requests_running 0\n")}
    ill.taken = dict.fromkeys((8000, 8001, 8002, 8003), "Address already in use")  # by that very server
    assert [finding for finding in examine(ill.machine(), setup) if finding.state != "ok"] == []


def port_taken(ill: FakeMachine, setup: Setup) -> None:
    ill.taken[8001] = "Address already in use"


def shm_full(ill: FakeMachine, setup: Setup) -> None:
    ill.shared = (8 << 20, 64 << 20)


def artifact_edited(ill: FakeMachine, setup: Setup) -> None:
    (setup.entries()[0].artifact / "weights.bin").write_bytes(b"weightz")


def few_handles(ill: FakeMachine, setup: Setup) -> None:
    ill.open_files = 256


def cgroup_below_threads(ill: FakeMachine, setup: Setup) -> None:
    ill.write("/sys/fs/cgroup/cpu.max", "100000 100000")
    add_entry("m", setup.entries()[0].artifact, setup.repository, replace(SMALL, threads=2))


def kv_over_memory(ill: FakeMachine, setup: Setup) -> None:
    add_entry("m", setup.entries()[0].artifact, setup.repository, ServingConfig(kv_cache_bytes=32 << 30))


def stuck_backend(ill: FakeMachine, setup: Setup) -> None:
    ill.start_launcher(setup.run_dir)
    reason = "'m-generator' is stuck: no step for 31 s with 4 requests waiting"
    body = {"ready": False, "phase": "restarting", "reasons": [reason], "models": {}, "restarts": 1}
    ill.pages = {"/ready": Answer(503, json.dumps(body)), "/metrics": Answer(200, "triton_llm_requests_running 4\n")}


def foreign_openvino(ill: FakeMachine, setup: Setup) -> None:
    folder = write_artifact(setup.repository.parent / "engines/old", kind="openvino-ir", built_by="1999.1.0")
    add_entry("m", folder, setup.repository, SMALL)


@pytest.mark.parametrize(
    ("stage", "area", "cause", "remedy"),
    [
        (port_taken, "ports", r"grpc port 8001 on 127.0.0.1: Address already in use", r"ss -ltnp 'sport = :8001'"),
        (shm_full, "shared memory", r"8 of 67 MB are free, the backend processes need 84", r"--shm-size"),
        (artifact_edited, "artifacts", r"'weights.bin' does not have the sha256", r"NAME=m FORCE=1"),
        (few_handles, "files", r"256 files may be open at once, and 320 requests .* need 576", r"ulimit -n 4096"),
        (
            cgroup_below_threads,
            "cpu",
            r"threads 2, and 1 can run at once .*a limit of 1 cores",
            r"--set threads=",
        ),
        (
            kv_over_memory,
            "memory",
            r"35\.\d GB may be taken .* of the machine's 17\.2",
            r"kv_cache_bytes=\d+",
        ),
        (stuck_backend, "server", r"'m-generator' is stuck: no step for 31 s", r"the launcher restarts it"),
        (
            foreign_openvino,
            "versions",
            r"built by openvino 1999.1.0, this runtime has openvino 2",
            r"make build-engine",
        ),
    ],
)
def test_each_of_eight_faults_is_named(
    ill: FakeMachine,
    setup: Setup,
    stage: Callable[[FakeMachine, Setup], None],
    area: str,
    cause: str,
    remedy: str,
) -> None:
    stage(ill, setup)
    (finding,) = found(ill, setup)
    assert finding.area == area
    assert re.search(cause, finding.text)
    assert re.search(remedy, finding.next)


def test_a_remedy_for_a_cache_that_is_too_large_fits(ill: FakeMachine, setup: Setup) -> None:
    kv_over_memory(ill, setup)
    (finding,) = found(ill, setup)
    size = int(re.findall(r"kv_cache_bytes=(\d+)", finding.next)[0])
    add_entry("m", setup.entries()[0].artifact, setup.repository, ServingConfig(kv_cache_bytes=size))
    assert found(ill, setup) == []


@pytest.mark.parametrize(
    ("row", "state", "text"),
    [
        (HEALTHY_GPU, "ok", "driver 570.86.15, 23034 MiB, PCIe x16"),
        (HEALTHY_GPU.replace("23034, 0, 0", "23034, 0, 7"), "wrong", "7 memory errors that ECC could not correct"),
        (HEALTHY_GPU.replace("16, 16", "4, 16"), "wrong", "PCIe x4 of x16"),
        (HEALTHY_GPU.replace(", 41", ", 91"), "wrong", "91 °C"),
        (HEALTHY_GPU.replace("23034, 0", "23034, 9000"), "advice", "9000 of 23034 MiB are taken, and no server"),
        (HEALTHY_GPU.replace("0, 16, 16", "[N/A], 16, 16"), "ok", "PCIe x16"),  # no ECC
    ],
)
def test_a_gpu_is_read_as_its_tool_says(ill: FakeMachine, setup: Setup, row: str, state: str, text: str) -> None:
    ill.tools = {"nvidia-smi --query-gpu=": Tool(0, row), "nvidia-smi": Tool(0, BANNER)}
    findings = [f for f in examine(ill.machine(), setup, ["gpu"]) if f.text.startswith("GPU 0 (NVIDIA L4)")]
    assert [(f.state, text in f.text) for f in findings] == [(state, True)]
    assert len(FIELDS) == len(HEALTHY_GPU.split(", "))


@pytest.mark.parametrize(
    ("plugged", "tool", "state", "text"),
    [
        (False, Tool(None), "ok", "no NVIDIA GPU"),
        (True, Tool(None), "wrong", "an NVIDIA GPU is plugged in, and nvidia-smi does not answer"),
        (True, Tool(9, "NVIDIA-SMI has failed because\n"), "wrong", "does not answer: NVIDIA-SMI has failed because"),
        (True, Tool(4, "Insufficient Permissions"), "unknown", "may not look"),
    ],
)
def test_a_driver_that_does_not_answer(
    ill: FakeMachine, setup: Setup, plugged: bool, tool: Tool, state: str, text: str
) -> None:
    if plugged:
        ill.plug_in("0000:01:00.0")
    ill.tools = {"nvidia-smi": tool}
    (finding,) = examine(ill.machine(), setup, ["gpu"])
    assert finding.state == state
    assert text in finding.text


def test_an_old_cuda_is_named(ill: FakeMachine, setup: Setup) -> None:
    banner = BANNER.replace("12.8", "11.4")
    ill.tools = {"nvidia-smi --query-gpu=": Tool(0, HEALTHY_GPU), "nvidia-smi": Tool(0, banner)}
    assert [f.text for f in found(ill, setup)] == [
        "CUDA: the driver runs programs up to 11.4, the GPU container needs 12 or later"
    ]


def test_cores_and_gpus_of_two_numa_nodes(ill: FakeMachine, setup: Setup) -> None:
    ill.write("/sys/devices/system/node/node1/cpulist", "2,4-5")
    ill.plug_in("0000:41:00.0", numa_node=1)
    (finding,) = examine(ill.machine(), setup, ["numa"])[1:]
    assert "GPU 0000:41:00.0 lies on NUMA node 1, the cores that may be used on 0" in finding.text
    ill.cores = frozenset({1, 5})
    across, *rest = examine(ill.machine(), setup, ["numa"])
    assert "lie on NUMA nodes 0, 1" in across.text
    assert rest == []


def test_a_cpu_without_avx2(ill: FakeMachine, setup: Setup) -> None:
    ill.write("/proc/cpuinfo", "flags : fpu sse4_2\n")
    assert [finding.area for finding in found(ill, setup)] == ["cpu"]


def test_kills_for_want_of_memory_are_told(ill: FakeMachine, setup: Setup) -> None:
    ill.write("/sys/fs/cgroup/memory.events", "low 0\noom 3\noom_kill 2\n")
    (finding,) = found(ill, setup, "advice")
    assert "the kernel killed 2 processes" in finding.text
    assert "dmesg" in finding.next


def test_a_metrics_endpoint_that_is_down(ill: FakeMachine, setup: Setup) -> None:
    ill.start_launcher(setup.run_dir)
    ill.pages = {"/ready": Answer(200, READY)}
    (finding,) = found(ill, setup)
    assert re.search(r"metrics: http://127.0.0.1:8002/metrics does not answer \(Connection refused\)", finding.text)


def test_a_config_edited_by_hand(ill: FakeMachine, setup: Setup) -> None:
    file = setup.repository / "m-unary/config.pbtxt"
    file.write_text(file.read_text() + "# mine\n")
    (finding,) = found(ill, setup)
    assert "m-unary/config.pbtxt" in finding.text
    assert finding.next == "triton-llm repo add m"


def test_an_empty_or_absent_repository(ill: FakeMachine, setup: Setup, tmp_path: Path) -> None:
    (finding,) = found(ill, replace(setup, repository=tmp_path / "none"))
    assert "no such folder" in finding.text
    (tmp_path / "empty").mkdir()
    (finding,) = found(ill, replace(setup, repository=tmp_path / "empty"))
    assert "no entry of ours" in finding.text


def test_without_permission_it_says_so_and_goes_on(ill: FakeMachine, setup: Setup) -> None:
    """Root may read everything: the refusal is staged where the file is opened."""
    refused = "/proc/cpuinfo"

    class Guarded(Machine):
        def text(self, absolute: str) -> str | None:
            if absolute == refused:
                raise PermissionError(13, os.strerror(13), refused)
            return super().text(absolute)

    machine = Guarded(**vars(ill.machine()))
    findings = examine(machine, setup)
    (finding,) = [finding for finding in findings if finding.state == "unknown"]
    assert (finding.area, finding.text) == ("cpu", "'/proc/cpuinfo': no permission to look")
    assert {finding.area for finding in findings} == set(CHECKS)


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_a_symptom_names_checks_and_next_commands(ill: FakeMachine, setup: Setup, symptom: str) -> None:
    told = SYMPTOMS[symptom]
    assert set(told.areas) <= set(CHECKS)
    text = report(examine(ill.machine(), setup, told.areas), symptom)
    assert text.startswith(told.means)
    assert all(step in text for step in told.next)


def test_the_self_test_compares_with_what_the_memory_allows(ill: FakeMachine, setup: Setup) -> None:
    ill.start_launcher(setup.run_dir)
    weights = sum(file.size for file in Artifact.open(setup.entries()[0].artifact).manifest.files.values())
    memory, slow = self_test(ill.machine(), setup, lambda *_: 1.0)
    reached = float(re.findall(r"([\d.]+) GB/s", memory.text)[0]) * 1e9
    assert (slow.state, f"of the {reached / weights:.0f}"[:8] in slow.text) == ("advice", True)
    *_, fast = self_test(ill.machine(), setup, lambda *_: 1e12)
    assert fast.state == "ok"


def test_the_self_test_says_what_it_lacks(ill: FakeMachine, setup: Setup) -> None:
    *_, finding = self_test(ill.machine(), setup)
    assert "no server runs" in finding.text
    ill.start_launcher(setup.run_dir)

    def refused(*_: object) -> float:
        raise OSError("Connection refused")

    *_, finding = self_test(ill.machine(), setup, refused)
    assert (finding.state, "Connection refused" in finding.text) == ("unknown", True)


def test_bandwidth_is_measured() -> None:
    assert bandwidth(2, size=1 << 20, seconds=0.0) > 1e6
