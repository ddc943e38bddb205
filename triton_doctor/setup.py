"""What is to be served here: a repository, a run folder, the ports."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from build_engines.repository import Entry, knobs_of, list_entries
from python_llm.control_access import FILE
from python_llm.errors import CallerMistake
from python_llm.settings import ServingConfig
from triton_doctor.machine import Machine
from triton_launcher.ports import Ports, reachable
from triton_launcher.run_folder import read_state

__all__ = ["Setup"]


@dataclass(frozen=True)
class Setup:
    repository: Path = Path("model_repository")
    run_dir: Path = Path("run")
    host: str = "127.0.0.1"
    ports: Ports = field(default_factory=Ports)
    gateway: int = 0  # its port; 0: none is looked at

    def entries(self) -> list[Entry]:
        """Served models; none where the repository is not readable, which a check of its own tells."""
        try:
            return list_entries(self.repository)
        except (CallerMistake, OSError):
            return []

    def serving(self) -> dict[str, ServingConfig]:
        """Knobs by served model whose artifact is there: the others are not started."""
        found = {}
        for entry in self.entries():
            if entry.present:
                found[entry.name] = knobs_of(entry.name, self.repository)
        return found

    def running(self, machine: Machine) -> bool:
        """Whether a launcher lives on the run folder."""
        try:
            state = read_state(self.run_dir)
        except (OSError, ValueError, CallerMistake):
            return False
        return machine.alive(state.launcher)

    def url(self, port: str) -> str:
        """Of one of the ports, as this machine reaches it; HTTP as the running launcher wrote it down."""
        if port == "http":
            try:
                return str(json.loads((self.run_dir / FILE).read_text("utf-8"))["http"])
            except (OSError, ValueError, LookupError):
                pass
        return f"http://{reachable(self.host)}:{getattr(self.ports, port)}"
