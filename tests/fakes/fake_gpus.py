"""GPUs for tests: an nvidia-smi that answers the launcher's and the builder's questions."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["GIB", "install_gpus"]

GIB = 1 << 30
_PROGRAM = """#!{python}
import sys
fields = next(word for word in sys.argv if word.startswith("--query-gpu=")).partition("=")[2].split(",")
for gpu in {gpus!r}:
    print(", ".join(gpu[field] for field in fields))
"""


def install_gpus(
    folder: Path, count: int = 1, *, name: str = "NVIDIA H100", capability: str = "9.0", free: int = 79 * GIB
) -> Path:
    """Write ``nvidia-smi`` into ``folder``, which belongs in front of PATH."""
    gpu = {"name": name, "compute_cap": capability, "memory.total": "81559", "memory.free": str(free >> 20)}
    tool = folder / "nvidia-smi"
    folder.mkdir(parents=True, exist_ok=True)
    tool.write_text(_PROGRAM.format(python=sys.executable, gpus=[gpu] * count), "utf-8")
    tool.chmod(0o755)
    return folder
