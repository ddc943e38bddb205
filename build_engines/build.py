"""The build, top to bottom: locate → key → reuse or refuse → estimate → import → compile → verify → publish."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from build_engines.artifact import RECIPE, builder_versions, content_key, folder_size, manifest_of, write_manifest
from build_engines.builders import Builder, GpuBuilder, check_spec, find_builder
from build_engines.checkpoint import TOKENIZER_FILES, Checkpoint, locate, read_config
from build_engines.errors import StorageError, storage_errors
from build_engines.estimate import Estimate, Machine, check_room, estimate_of
from build_engines.facts import read_facts
from build_engines.progress import Progress, Silent
from build_engines.quality_bounds import check_quality, quality_record
from build_engines.spec import EngineSpec
from build_engines.tokenizer_files import check_tokenizer, save_fast_tokenizer
from build_engines.vocabulary import check_vocabulary
from build_engines.workspace import publish, working_folder
from python_llm.artifact import MANIFEST, Artifact, ArtifactError, Manifest, Source

__all__ = ["BuildPlan", "BuildResult", "build", "make_plan"]


@dataclass(frozen=True)
class BuildPlan:
    """What a build would do, found out without doing it."""

    spec: EngineSpec
    builder: Builder
    checkpoint: Checkpoint
    hashes: Mapping[str, str]  # of the weight files
    other_hashes: Mapping[str, str]  # of configuration and tokenizer
    key: str
    path: Path
    estimate: Estimate  # of a build; a reuse takes seconds
    action: str  # reuse, build or replace

    @property
    def subject(self) -> str:
        """The artifact as errors about its quality name it."""
        return f"artifact '{self.spec.name}' ({self.spec.quant})"


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
            "quality": self.manifest.quality,
        }


def make_plan(spec: EngineSpec, engines: Path, progress: Progress | None = None, *, verify: bool = False) -> BuildPlan:
    """Find the source and the builder and say what a build would do. ``verify`` reads a finished artifact in full.

    Raises:
        CallerMistake: a knob, a source or a name that cannot work.
    """
    progress = progress or Silent()
    builder = find_builder(spec.engine, spec.role)
    check_spec(spec, builder)
    if isinstance(builder, GpuBuilder):
        builder.require(spec)
    progress.phase("locate")
    checkpoint = locate(spec, progress, quantised=isinstance(builder, GpuBuilder))
    if isinstance(builder, GpuBuilder):
        builder = builder.fitting(spec, checkpoint.path)
    progress.phase("hash")
    weights, others = checkpoint.hashes(progress)
    key = content_key({**weights, **others}, spec, builder)
    estimate = estimate_of(spec, checkpoint, on_gpu=isinstance(builder, GpuBuilder))
    plan = BuildPlan(spec, builder, checkpoint, weights, others, key, engines / spec.name, estimate, action="build")
    return replace(plan, action=_action(plan, verify))


def build(
    spec: EngineSpec,
    engines: Path,
    progress: Progress | None = None,
    *,
    verify: bool = False,
    machine: Machine | None = None,
) -> BuildResult:
    """Build ``engines/<name>``, or reuse it when it was built of the same inputs.

    ``machine``: the room there is; found out where it is not given.

    Raises:
        CallerMistake: a knob, a source, a name, a folder or a machine that cannot work, or an engine that loses more
            than its bounds allow; nothing is left behind.
        BuildFailure: the builder broke.
    """
    progress = progress or Silent()
    try:
        plan = make_plan(spec, engines, progress, verify=verify)
        if plan.action == "reuse":
            return _reused(plan)
        progress.note(f"{plan.action} {plan.path}: {plan.estimate}")
        if plan.checkpoint.code:
            progress.note(f"runs the checkpoint's own code: {', '.join(file.name for file in plan.checkpoint.code)}")
        check_room(plan.estimate, machine or Machine.here(engines), spec.model, engines)
        with working_folder(engines, spec.name) as work, storage_errors(work):
            if _action(plan, verify=False) == "reuse":  # another build finished it meanwhile
                return _reused(plan)
            manifest = _produce(plan, work, progress)
            progress.phase("publish")
            publish(work / "artifact", plan.path)
        return BuildResult(plan.path, manifest, plan.checkpoint.size, reused=False)
    finally:
        progress.close()


def _reused(plan: BuildPlan) -> BuildResult:
    manifest = Artifact.open(plan.path).manifest
    _hold(plan, manifest.quality)
    return BuildResult(plan.path, manifest, plan.checkpoint.size, reused=True)


def _produce(plan: BuildPlan, work: Path, progress: Progress) -> Manifest:
    output, scratch = work / "artifact", work / "scratch"
    output.mkdir()
    scratch.mkdir()
    progress.phase("import")
    folder = plan.checkpoint.as_folder(scratch / "checkpoint")
    trusted = bool(plan.checkpoint.code)  # the flag alone runs nothing: the checkpoint must name its code
    spec = replace(plan.spec, trust_remote_code=trusted)
    plan.builder.check(folder, read_config(folder), trusted=trusted)
    _copy_tokenizer(folder, output, trusted=trusted)
    facts = read_facts(folder, output, trusted=trusted)
    quantisation = plan.builder.build(folder, spec, output, scratch, progress)
    progress.phase("verify")
    plan.builder.verify(output, facts.vocab_size)
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
        stamp=plan.builder.stamp(spec, folder, output) if isinstance(plan.builder, GpuBuilder) else None,
    )
    manifest = replace(manifest, quality=_quality(plan, folder, Artifact(output, manifest), progress))
    progress.phase("write")
    write_manifest(manifest, output)
    return manifest


def _quality(plan: BuildPlan, folder: Path, artifact: Artifact, progress: Progress) -> dict[str, Any] | None:
    """Measure what the engine loses and hold it to the bounds; None where that is not wanted or not possible."""
    from build_engines import quality

    if not plan.spec.check_quality:
        return None
    measured = quality.measure(artifact, folder, progress, trusted=bool(plan.checkpoint.code))
    if measured is None:
        return None
    record = quality_record(measured, plan.spec.quality_bounds, quality.served_knobs())
    _hold(plan, record)
    return record


def _hold(plan: BuildPlan, record: Mapping[str, Any] | None) -> None:
    """Raises QualityLoss where the plan's bounds are missed."""
    spec = plan.spec
    check_quality(
        record,
        spec.quality_bounds,
        plan.subject,
        allow_loss=spec.allow_quality_loss,
        quantised=spec.quant != "none",
    )


def _action(plan: BuildPlan, verify: bool) -> str:
    """Reuse a sound artifact of the same inputs; refuse one of other inputs unless forced."""
    if not plan.path.exists():
        return "build"
    if not (plan.path / MANIFEST).is_file():
        raise StorageError(f"folder '{plan.path}': it exists and is no artifact; remove it or choose another name.")
    try:
        manifest = Artifact.open(plan.path, verify=verify).manifest
    except ArtifactError:
        if plan.spec.force:
            return "replace"
        raise
    if manifest.content_key == plan.key:
        return "reuse"
    if plan.spec.force or _is_of_an_old_recipe(manifest, plan):
        return "replace"
    raise StorageError(
        f"artifact '{plan.path}': it was built of other inputs ({_differences(manifest, plan)}); use --force (FORCE=1) "
        "to replace it, or choose another name."
    )


def _is_of_an_old_recipe(manifest: Manifest, plan: BuildPlan) -> bool:
    """Built of the same inputs by an earlier version of ours: it is built anew without asking."""
    old = manifest.builder.get("recipe", RECIPE)
    return old != RECIPE and manifest.content_key == content_key(
        {**plan.hashes, **plan.other_hashes}, plan.spec, plan.builder, old
    )


def _differences(manifest: Manifest, plan: BuildPlan) -> str:
    """What differs between an artifact and the inputs of a plan, in the caller's words."""
    found = []
    if dict(manifest.source.files) != dict(plan.hashes):
        found.append(f"its source is '{manifest.source.id}'")
    if (weights := manifest.quantisation.get("weights")) != plan.spec.quant:
        found.append(f"its quant is {weights}")
    versions = builder_versions(plan.builder)
    for name in plan.builder.packages:
        if (built := manifest.builder.get(name)) != versions[name]:
            found.append(f"it was built by {name} {built}, here is {versions[name]}")
    return "; ".join(found) or "its settings or tokenizer differ"


def _copy_tokenizer(folder: Path, output: Path, *, trusted: bool) -> None:
    """The checkpoint's own tokenizer and configuration files, unchanged; a slow tokenizer is made a fast one."""
    for name in ("config.json", "generation_config.json", *TOKENIZER_FILES):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, output / name)
    if not (output / "tokenizer.json").is_file():
        save_fast_tokenizer(folder, output, trusted=trusted)
        check_vocabulary(output, read_config(folder), {}, folder)
    check_tokenizer(output / "tokenizer.json", folder)
