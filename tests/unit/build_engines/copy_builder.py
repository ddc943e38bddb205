"""A builder as another distribution would add one: it copies the weights, in two halves, and calls them an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.errors import BuildFailure
from build_engines.progress import Progress
from build_engines.spec import EngineSpec

__all__ = ["BUILDER", "CopyBuilder", "install"]

ENGINE_FILE = "engine.bin"


class CopyBuilder:
    engine = "copy"
    kind = "copy"  # no engine scores it, so its quality is not measured
    packages = ("openvino", "numpy")
    formats: Mapping[str, str] = {"none": "as it is", "int8": "as it is"}
    has_limits = True

    def check(self, folder: Path, config: Mapping[str, Any], *, trusted: bool = False) -> None:
        pass

    def build(self, folder: Path, spec: EngineSpec, output: Path, scratch: Path, progress: Progress) -> dict[str, Any]:
        data = (folder / "model.safetensors").read_bytes()
        with (output / ENGINE_FILE).open("wb") as stream:
            stream.write(data[: len(data) // 2])
            stream.flush()
            progress.phase("second half")
            stream.write(data[len(data) // 2 :])
        return {"weights": spec.quant, "format": self.formats[spec.quant]}

    def verify(self, output: Path, vocab_size: int) -> None:
        if not (output / ENGINE_FILE).stat().st_size:
            raise BuildFailure(f"engine '{output / ENGINE_FILE}': empty.")


BUILDER = CopyBuilder()


def install(site: Path) -> Path:
    """Make ``site`` a folder of distributions that holds this builder and its entry point."""
    metadata = site / "copy_builder-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: copy-builder\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[triton_llm.builders]\ncopy = copy_builder:BUILDER\n")
    (site / "copy_builder.py").write_text(Path(__file__).read_text("utf-8"), "utf-8")
    return site
