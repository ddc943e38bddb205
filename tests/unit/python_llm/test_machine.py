"""What control groups and affinity leave of a machine, read from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from python_llm.machine import Memory, cpu_quota, read_memory, resident_bytes, usable_cpus

V1 = "sys/fs/cgroup"
ONE = "4:cpu,cpuacct:/jobs/a\n3:memory:/jobs/a\n1:name=systemd:/\n"
MACHINE = {"proc/meminfo": "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 400 kB\n"}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "affinity", "quota", "cpus"),
    [
        ({}, 8, None, 8),
        ({"proc/self/cgroup": "0::/\n", f"{V1}/cpu.max": "max 100000\n"}, 8, None, 8),
        ({"proc/self/cgroup": "0::/\n", f"{V1}/cpu.max": "250000 100000\n"}, 8, 2.5, 2),
        ({"proc/self/cgroup": "0::/\n", f"{V1}/cpu.max": "50000 100000\n"}, 8, 0.5, 1),
        ({"proc/self/cgroup": "0::/\n", f"{V1}/cpu.max": "1600000 100000\n"}, 4, 16.0, 4),
        # a slice above the process's own group is tighter
        (
            {"proc/self/cgroup": "0::/a/b\n", f"{V1}/a/b/cpu.max": "max 100000\n", f"{V1}/a/cpu.max": "300000 100000"},
            8,
            3.0,
            3,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu:/\n0::/\n",
                f"{V1}/cpu/cpu.cfs_quota_us": "400000\n",
                f"{V1}/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
            4.0,
            4,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu:/\n",
                f"{V1}/cpu/cpu.cfs_quota_us": "-1\n",
                f"{V1}/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
            None,
            8,
        ),
        ({"proc/self/cgroup": "0::/\n", f"{V1}/cpu.max": "nonsense"}, 8, None, 8),
        ({"proc/self/cgroup": "no cgroup line\n"}, 8, None, 8),
    ],
)
def test_threads_that_can_run(
    tmp_path: Path, files: dict[str, str], affinity: int, quota: float | None, cpus: int
) -> None:
    root = tree(tmp_path, files)
    assert cpu_quota(root) == quota
    assert usable_cpus(root, affinity) == cpus


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({}, Memory(600 << 10, 1000 << 10, "machine")),
        (
            {"proc/self/cgroup": "0::/\n", f"{V1}/memory.max": "max\n", f"{V1}/memory.current": "5\n"},
            Memory(600 << 10, 1000 << 10, "machine"),
        ),
        (
            {
                "proc/self/cgroup": "0::/\n",
                f"{V1}/memory.max": "1000\n",
                f"{V1}/memory.current": "900\n",
                f"{V1}/memory.stat": "anon 1\ninactive_file 100\n",
            },
            Memory(800, 1000, "container"),
        ),
        (
            {
                "proc/self/cgroup": "3:memory:/a\n",
                f"{V1}/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
                f"{V1}/memory/memory.limit_in_bytes": "2000\n",
                f"{V1}/memory/memory.usage_in_bytes": "1900\n",
                f"{V1}/memory/memory.stat": "total_inactive_file 100\n",
            },
            Memory(1800, 2000, "container"),
        ),
        # the container has room, the machine has not so much
        (
            {"proc/self/cgroup": "0::/\n", f"{V1}/memory.max": "1000\n", f"{V1}/memory.current": "100\n"},
            Memory(600 << 10, 1000 << 10, "machine"),
        ),
    ],
)
def test_the_tighter_of_containers_and_machines_memory(tmp_path: Path, files: dict[str, str], memory: Memory) -> None:
    assert read_memory(tree(tmp_path, {**MACHINE, **files})) == memory


def test_nothing_to_read_is_no_shortage(tmp_path: Path) -> None:
    assert read_memory(tmp_path).share == 0.0
    assert resident_bytes(tmp_path) == 0


def test_this_machine() -> None:
    assert usable_cpus() >= 1
    assert 0 < read_memory().used < read_memory().limit
    assert resident_bytes() > 1 << 20
    assert resident_bytes(process=1 << 30) == 0
