"""Builders, one file each: a Hugging Face folder in, engine files out.

A module of this package offers ``BUILDER``; another distribution adds one by an entry point of the group
``triton_llm.builders`` whose name is the engine and whose object is the builder. Importing a builder's module
imports no engine library; building does.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from build_engines.errors import SpecError
from build_engines.progress import Progress
from build_engines.spec import EngineSpec
from build_engines.spec_gpu import GPU_KNOBS
from build_engines.stamp import Stamp

__all__ = ["Builder", "GpuBuilder", "Said", "builder_names", "check_spec", "find_builder", "role_of"]

_GROUP = "triton_llm.builders"
_AUTO = {"": "openvino", "text": "openvino", "scorer": "onnx"}  # what `auto` means, by role


class Builder(Protocol):
    """One engine's builder."""

    engine: str
    kind: str  # of the artifact
    packages: tuple[str, ...]  # distributions whose versions decide the result; they go into the content key
    formats: Mapping[str, str]  # what a quantisation word means here
    has_limits: bool  # whether the engine is compiled for limits

    def check(self, folder: Path, config: Mapping[str, Any], *, trusted: bool = False) -> None:
        """Refuse an architecture this builder cannot compile, before anything heavy; raises CheckpointError.

        ``trusted``: the caller lets the checkpoint's own code run.
        """

    def build(self, folder: Path, spec: EngineSpec, output: Path, scratch: Path, progress: Progress) -> dict[str, Any]:
        """Write the engine's files into ``output`` and return what the manifest says of the quantisation."""

    def verify(self, output: Path, vocab_size: int) -> None:
        """Load what was built and run one forward pass; raises BuildFailure."""


class Said(Protocol):
    """A dry run's outcome: its text, and as a record."""

    @property
    def sound(self) -> bool: ...

    def to_record(self) -> dict[str, Any]: ...


@runtime_checkable
class GpuBuilder(Builder, Protocol):
    """What a builder of engines for GPUs offers beside: its library is in a container, its engine has ranks."""

    def fitting(self, spec: EngineSpec, folder: Path) -> GpuBuilder:
        """The builder for this source: another one where it needs no build."""

    def require(self, spec: EngineSpec) -> None:
        """Refuse to build where the library is not; raises MissingRuntime with the command that goes where it is."""

    def dry_run(self, spec: EngineSpec, engines: Path) -> Said:
        """The complete plan of the build, of the model's config.json alone; runs everywhere."""

    def stamp(self, spec: EngineSpec, folder: Path, output: Path) -> Stamp:
        """What artifact.json says of the finished engine in ``output``, built of ``folder``."""


def builder_names() -> tuple[str, ...]:
    """Engines that can be built here."""
    own = {module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")}
    return tuple(sorted(own | {point.name for point in entry_points(group=_GROUP)}))


def role_of(builder: Builder) -> str:
    """What its artifacts are for: text, or scorer where the builder says so."""
    return str(getattr(builder, "role", "text"))


def find_builder(engine: str, role: str = "") -> Builder:
    """The builder of ``engine``; of `auto` the one for ``role``.

    Raises:
        SpecError: there is none of that name.
    """
    name = _AUTO.get(role, _AUTO[""]) if engine == "auto" else engine
    names = builder_names()
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "choose one of these, or auto."
        raise SpecError(f"engine '{engine}': no builder for it here; there are: {', '.join(names)}; {hint}")
    for point in entry_points(group=_GROUP):
        if point.name == name:
            found: Builder = point.load()
            return found
    module: Any = import_module(f"{__name__}.{name}")
    builder: Builder = module.BUILDER
    return builder


def check_spec(spec: EngineSpec, builder: Builder) -> None:
    """Refuse what the engine lacks, by name.

    Raises:
        SpecError: a quantisation or a limit the builder does not have.
    """
    if spec.quant not in builder.formats:
        raise SpecError(
            f"quant '{spec.quant}': the {builder.engine} engine lacks it; it has {', '.join(builder.formats)}."
        )
    if spec.role and spec.role != role_of(builder):
        raise SpecError(
            f"role '{spec.role}': the {builder.engine} engine is for role {role_of(builder)}; choose engine "
            f"{_AUTO[spec.role]}, or leave the role out."
        )
    if not isinstance(builder, GpuBuilder):
        _refuse_gpu_knobs(spec, builder)
    if builder.has_limits:
        return
    for limit in ("max_batch_size", "max_input_len", "max_seq_len", "max_num_tokens"):
        if value := getattr(spec, limit):
            raise SpecError(
                f"{limit} {value}: the {builder.engine} engine is not compiled for limits; leave it out and set the "
                "serving knobs of the model's entry instead."
            )


def _refuse_gpu_knobs(spec: EngineSpec, builder: Builder) -> None:
    for name, default in GPU_KNOBS.items():
        if (value := getattr(spec, name)) != default:
            raise SpecError(
                f"{name} '{value}': the {builder.engine} engine runs on a CPU and has no such knob; leave it out, "
                "or choose engine tensorrt_llm."
            )
