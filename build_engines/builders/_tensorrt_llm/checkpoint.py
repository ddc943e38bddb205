"""Checkpoints that are served as they are: ModelOpt's quantised folders, and plain ones, copied and not built."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from build_engines.builders._tensorrt_llm.quantised import QUANT_CONFIG, check_quantised, read_quantisation
from build_engines.errors import CheckpointError, SpecError
from build_engines.json_files import read_object
from build_engines.plan.model_numbers import read_numbers
from build_engines.plan.source import find_config
from build_engines.progress import Progress
from build_engines.spec import EngineSpec
from build_engines.stamp import Stamp
from build_engines.weights import find_weights

__all__ = ["IMPORTER", "CheckpointImporter"]


@dataclass(frozen=True)
class Import:
    """A dry run of an import."""

    artifact: str
    source: str
    quantisation: Mapping[str, Any]
    tp: int
    pp: int
    kind: str = "tensorrt_llm-checkpoint"
    sound: bool = True

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        found = self.quantisation
        return (
            f"would import {self.artifact} ({self.kind}) of {self.source}: {found['format']}, KV {found['kv_cache']}, "
            f"tp {self.tp}, pp {self.pp}; its files are copied, nothing is built"
        )


class CheckpointImporter:
    """Needs no GPU and no library: what runs it is chosen when it is served."""

    engine = "tensorrt_llm"
    kind = "tensorrt_llm-checkpoint"
    packages: tuple[str, ...] = ()
    formats: Mapping[str, str] = {"none": "as the checkpoint"}
    has_limits = True

    def fitting(self, spec: EngineSpec, folder: Path) -> CheckpointImporter:
        return self

    def require(self, spec: EngineSpec) -> None:
        """Nothing."""

    def dry_run(self, spec: EngineSpec, engines: Path) -> Import:
        return self.said(spec, find_config(spec.model, spec.revision, offline=spec.offline)[0], engines)

    def said(self, spec: EngineSpec, folder: Path, engines: Path) -> Import:
        """What an import would do."""
        self._check_wish(spec, folder)
        return Import(str(engines / spec.name), spec.model, read_quantisation(folder), spec.tp, spec.pp)

    def check(self, folder: Path, config: Mapping[str, Any], *, trusted: bool = False) -> None:
        check_quantised(folder, find_weights(folder, quantised=True))

    def build(self, folder: Path, spec: EngineSpec, output: Path, scratch: Path, progress: Progress) -> dict[str, Any]:
        self._check_wish(spec, folder)
        progress.phase("copy")
        names = [file.name for file in find_weights(folder, quantised=True)]
        for name in (*names, "model.safetensors.index.json", QUANT_CONFIG):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, output / name)
        return read_quantisation(folder)

    def verify(self, output: Path, vocab_size: int) -> None:
        """The copies are hashed by the manifest."""

    def stamp(self, spec: EngineSpec, folder: Path, output: Path) -> Stamp:
        """A checkpoint is bound by no build: limits and features are chosen when it is served."""
        return Stamp(tp=spec.tp, pp=spec.pp, limits=spec.limits, features={"gpus_per_node": spec.gpus_per_node})

    def _check_wish(self, spec: EngineSpec, folder: Path) -> None:
        quantised = (folder / QUANT_CONFIG).is_file()
        if not quantised and spec.quant != "none":
            raise CheckpointError(
                f"checkpoint '{folder}': called a checkpoint of quant '{spec.quant}', and it has no {QUANT_CONFIG}; it "
                "is not quantised: export it with ModelOpt's hf_ptq.py, say quant none, or build an engine."
            )
        if read_numbers(read_object(folder / "config.json"), str(folder)).layers < spec.pp:
            raise SpecError(f"pp {spec.pp}: the model has fewer layers, and a stage holds one at least; lower pp.")


IMPORTER = CheckpointImporter()
