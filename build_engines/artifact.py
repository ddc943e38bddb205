"""Writing the artifact: its content key, and artifact.json as the last file. Reading is python_llm.artifact's."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from build_engines.builders import Builder
from build_engines.spec import EngineSpec
from build_engines.spec_gpu import GPU_KNOBS
from build_engines.stamp import Stamp
from python_llm.artifact import MANIFEST, SCHEMA, FileRecord, Manifest, ModelFacts, Source, sha256_of

__all__ = ["RECIPE", "builder_versions", "content_key", "folder_size", "manifest_of", "write_manifest"]

# Raise it when what a build writes changes though no version does: artifacts of the old recipe are built anew.
RECIPE = "2"
# Knobs that came after the first artifacts, with the defaults at which they leave the key as it was.
_LATER: Mapping[str, Any] = {
    "int4_ratio": 1.0,
    "int4_rest": "int8",
    "check_quality": True,
    "trust_remote_code": False,
    **{name: value for name, value in GPU_KNOBS.items() if name != "calib"},
}


def builder_versions(builder: Builder) -> dict[str, str]:
    """What built the artifact: exact versions, as the installed distributions report them."""
    return {"triton-llm": version("triton-llm"), "recipe": RECIPE} | {name: version(name) for name in builder.packages}


def content_key(hashes: Mapping[str, str], spec: EngineSpec, builder: Builder, recipe: str = "") -> str:
    """What an artifact depends on, as one hash: source files, the knobs that matter, the builder's versions.

    Our own version is not in it: ``recipe`` (today's where none is given) stands for what of ours decides the
    result. Knobs that came later are in it only where they are set: a new knob leaves older artifacts their keys.
    """
    versions = {name: found for name, found in builder_versions(builder).items() if name != "triton-llm"}
    later = {name: getattr(spec, name) for name in _LATER}
    inputs = {
        "schema": SCHEMA,
        "files": dict(hashes),
        "engine": builder.engine,
        "quant": spec.quant,
        "group_size": spec.group_size,
        "limits": asdict(spec.limits),
        "versions": versions | {"recipe": recipe or RECIPE},
    } | {name: value for name, value in later.items() if value != _LATER[name]}
    if spec.drift:
        inputs["drift"] = asdict(spec.drift)
    if spec.calib:
        inputs["calib"] = sha256_of(Path(spec.calib))
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def manifest_of(
    output: Path,
    *,
    spec: EngineSpec,
    builder: Builder,
    key: str,
    source: Source,
    facts: ModelFacts,
    quantisation: Mapping[str, Any],
    stamp: Stamp | None = None,
) -> Manifest:
    """The manifest of the finished files in ``output``. ``stamp``: what a builder for GPUs knows beside them."""
    stamp = stamp or Stamp(limits=spec.limits)
    files = sorted(file for file in output.rglob("*") if file.is_file() and file.name != MANIFEST)
    return Manifest(
        schema=SCHEMA,
        name=spec.name,
        kind=builder.kind,
        content_key=key,
        source=source,
        model=facts,
        quantisation=quantisation,
        files={
            str(file.relative_to(output)): FileRecord(size=file.stat().st_size, sha256=sha256_of(file))
            for file in files
        },
        builder={**builder_versions(builder), **stamp.builder},
        tp=stamp.tp,
        pp=stamp.pp,
        world_size=stamp.tp * stamp.pp,
        limits=stamp.limits,
        features=stamp.features,
    )


def write_manifest(manifest: Manifest, output: Path) -> None:
    """Put every file on the disk, then artifact.json: a power cut leaves no manifest without its files."""
    for name in manifest.files:
        _sync(output / name)
    scratch = output / f".{MANIFEST}"
    scratch.write_text(manifest.to_json(), "utf-8")
    _sync(scratch)
    scratch.replace(output / MANIFEST)


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def folder_size(manifest: Manifest) -> int:
    """Bytes of the artifact's files."""
    return sum(record.size for record in manifest.files.values())
