"""A healthy machine made of files in a folder, for the doctor; each part can be made ill by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triton_doctor.machine import Answer, Machine, Tool

__all__ = ["FakeMachine"]

_MEMORY = "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\n"  # 16 GiB, 12 of them free


@dataclass
class FakeMachine:
    """Two cores, 16 GiB, 1 GiB of shared memory; no GPU and no server, unless a test gives one."""

    root: Path
    taken: dict[int, str] = field(default_factory=dict)  # port -> why nobody else can listen there
    tools: dict[str, Tool] = field(default_factory=dict)  # first words of a command -> how it ends
    pages: dict[str, Answer] = field(default_factory=dict)  # end of a URL -> answer
    shared: tuple[int, int] = (1 << 30, 1 << 30)
    cores: frozenset[int] = frozenset({0, 1})
    open_files: int = 65536

    def __post_init__(self) -> None:
        self.write("/proc/cpuinfo", "processor : 0\nflags : fpu avx2 avx512f avx512_vnni\n")
        self.write("/proc/meminfo", _MEMORY)
        self.write("/proc/self/cgroup", "0::/\n")
        self.write("/sys/devices/system/node/node0/cpulist", "0-1\n")

    def write(self, absolute: str, text: str) -> Path:
        file = self.root / absolute.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def plug_in(self, device: str, *, numa_node: int = 0) -> None:
        """An NVIDIA GPU on the bus."""
        for name, text in {"vendor": "0x10de", "class": "0x030200", "numa_node": str(numa_node)}.items():
            self.write(f"/sys/bus/pci/devices/{device}/{name}", f"{text}\n")

    def start_launcher(self, run_dir: Path, pid: int = 4242) -> None:
        """As if a launcher lived on the run folder."""
        run_dir.mkdir(parents=True, exist_ok=True)
        note = {"launcher": pid, "marker": "triton_llm_fake", "tritonserver": pid + 1}
        (run_dir / "launcher.json").write_text(json.dumps(note), "utf-8")
        (self.root / f"proc/{pid}").mkdir(parents=True)

    def machine(self) -> Machine:
        return Machine(
            root=self.root,
            run=self._run,
            get=self._get,
            bind=lambda _, port: self.taken.get(port, ""),
            room=lambda _: self.shared,
            affinity=self.cores,
            open_files=self.open_files,
        )

    def _run(self, command: Sequence[str]) -> Tool:
        line = " ".join(command)
        found = [tool for words, tool in self.tools.items() if line.startswith(words)]
        return found[0] if found else Tool(None)

    def _get(self, url: str) -> Answer:
        found = [answer for end, answer in self.pages.items() if url.endswith(end)]
        return found[0] if found else Answer(0, "Connection refused")
