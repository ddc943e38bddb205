"""The build, top to bottom: locate → key → reuse or refuse → import → compile → verify → publish."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from python_llm.artifact import MANIFEST, Artifact, ArtifactError, Manifest, Source

from build_engines.artifact import content_key, folder_size, manifest_of, write_manifest
from build_engines.builders import Builder, check_spec, find_builder
from build_engines.checkpoint import TOKENIZER_FILES, Checkpoint, locate, read_config
from build_engines.errors import StorageError, storage_errors
from build_engines.facts import read_facts
from build_engines.progress import Progress, Silent
from build_engines.spec import EngineSpec
from build_engines.workspace import publish, working_folder

__all__ = ["BuildPlan", "BuildResult", "build", "make_plan"]


@dataclass(frozen=True)
class BuildPlan:
    """What a build would do, found out without doing it."""

    spec: EngineSpec
    builder: Builder
    checkpoint: Checkpoint
    hashes: Mapping[str, str]  # of the weight files
    key: str
    path: Path
    action: str  # reuse, build or replace


@dataclass(frozen=True)
class BuildResult:
    """A finished artifact."""

    path: Path
    manifest: Manifest
    source_size: int
    reused: bool

    def to_record(self) -> dict[str, Any]:
        return {
            "artifact": str(self.path),
            "reused": self.reused,
            "size": folder_size(self.manifest),
            "source_size": self.source_size,
            "content_key": self.manifest.content_key,
            "kind": self.manifest.kind,
            "quantisation": dict(self.manifest.quantisation),
            "model": asdict(self.manifest.model),
        }


def make_plan(spec: EngineSpec, engines: Path, progress: Progress | None = None, *, verify: bool = False) -> BuildPlan:
    """Find the source and the builder and say what a build would do. ``verify`` reads a finished artifact in full.

    Raises:
        CallerMistake: a knob, a source or a name that cannot work.
    """
    progress = progress or Silent()
    builder = find_builder(spec.engine)
    check_spec(spec, builder)
    progress.phase("locate")
    checkpoint = locate(spec, progress)
    progress.phase("hash")
    weights, others = checkpoint.hashes(progress)
    key = content_key({**weights, **others}, spec, builder)
    path = engines / spec.name
    return BuildPlan(spec, builder, checkpoint, weights, key, path, _action(path, key, spec, verify))


def build(spec: EngineSpec, engines: Path, progress: Progress | None = None, *, verify: bool = False) -> BuildResult:
    """Build ``engines/<name>``, or reuse it when it was built of the same inputs.

    Raises:
        CallerMistake: a knob, a source, a name or a folder that cannot work; nothing is left behind.
        BuildFailure: the builder broke.
    """
    progress = progress or Silent()
    try:
        plan = make_plan(spec, engines, progress, verify=verify)
        if plan.action == "reuse":
            artifact = Artifact.open(plan.path)
            return BuildResult(plan.path, artifact.manifest, plan.checkpoint.size, reused=True)
        with working_folder(engines, spec.name) as work, storage_errors(work):
            manifest = _produce(plan, work, progress)
            progress.phase("publish")
            publish(work / "artifact", plan.path)
        return BuildResult(plan.path, manifest, plan.checkpoint.size, reused=False)
    finally:
        progress.close()


def _produce(plan: BuildPlan, work: Path, progress: Progress) -> Manifest:
    output, scratch = work / "artifact", work / "scratch"
    output.mkdir()
    scratch.mkdir()
    progress.phase("import")
    folder = plan.checkpoint.as_folder(scratch / "checkpoint")
    plan.builder.check(folder, read_config(folder))
    facts = read_facts(folder)
    quantisation = plan.builder.build(folder, plan.spec, output, scratch, progress)
    progress.phase("verify")
    plan.builder.verify(output, facts.vocab_size)
    _copy_tokenizer(folder, output)
    progress.phase("write")
    source = Source(
        id=plan.checkpoint.id, revision=plan.checkpoint.revision, files=plan.hashes, licence=plan.checkpoint.licence
    )
    manifest = manifest_of(
        output,
        spec=plan.spec,
        builder=plan.builder,
        key=plan.key,
        source=source,
        facts=facts,
        quantisation=quantisation,
    )
    write_manifest(manifest, output)
    return manifest


def _action(path: Path, key: str, spec: EngineSpec, verify: bool) -> str:
    """Reuse a sound artifact of the same inputs; refuse one of other inputs unless forced."""
    if not path.exists():
        return "build"
    if not (path / MANIFEST).is_file():
        if spec.force and path.is_dir() and not any(path.iterdir()):
            return "replace"
        raise StorageError(f"folder '{path}': it exists and is no artifact; remove it or choose another name.")
    try:
        found = Artifact.open(path, verify=verify).manifest.content_key
    except ArtifactError:
        if spec.force:
            return "replace"
        raise
    if found == key:
        return "reuse"
    if spec.force:
        return "replace"
    raise StorageError(
        f"artifact '{path}': it was built of other inputs (source, quantisation or versions differ); use --force "
        "(FORCE=1) to replace it, or choose another name."
    )


def _copy_tokenizer(folder: Path, output: Path) -> None:
    """The checkpoint's own tokenizer and configuration files, unchanged; a slow tokenizer is made a fast one."""
    for name in ("config.json", "generation_config.json", *TOKENIZER_FILES):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, output / name)
    if not (output / "tokenizer.json").is_file():
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)  # type: ignore[no-untyped-call]
        tokenizer.save_pretrained(output)
