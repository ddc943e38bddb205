"""The backend directory of one run: the Python backend with the right stub, and Python-based backends beside it.

Everything lies in the run folder; the environment's site-packages may be read-only and stay as they are.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from triton_launcher.discovery import Triton
from triton_launcher.errors import LaunchRefused

__all__ = ["assemble"]

_STUB = "triton_python_backend_stub"


def assemble(triton: Triton, target: Path, ours: Sequence[Path]) -> Path:
    """Make ``target`` anew; ``ours`` are Python-based backend folders, linked by their own names."""
    try:
        if target.exists():
            shutil.rmtree(target)
        target.mkdir(parents=True)
        _python_backend(triton, target / "python")
        _link_others(triton.backends, target)
        for folder in ours:
            _link(folder, target)
    except OSError as error:
        raise LaunchRefused(
            f"backend folder '{target}': {error}; the run folder must be writable: choose another with --run-dir."
        ) from error
    return target


def _python_backend(triton: Triton, target: Path) -> None:
    source = triton.backends / "python"
    if triton.stub is None:
        target.symlink_to(source)  # a native Triton is complete
        return
    target.mkdir()
    for file in (*source.glob("*.so"), *source.glob("*.py")):
        shutil.copy(file, target / file.name)
    stub = target / _STUB
    shutil.copy(triton.stub, stub)
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def _link_others(backends: Path, target: Path) -> None:
    for folder in backends.iterdir():
        if folder.is_dir() and folder.name != "python":
            (target / folder.name).symlink_to(folder)


def _link(folder: Path, target: Path) -> None:
    if not (folder / "model.py").is_file():
        raise LaunchRefused(f"backend '{folder}': no model.py; a Python-based backend is a folder that holds one.")
    link = target / folder.name
    link.unlink(missing_ok=True)  # ours goes before one of the same name in a native Triton
    link.symlink_to(folder.resolve())
