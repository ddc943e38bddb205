"""OpenVINO: export to a stateful IR, compress the weights, check that the paged form of it runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from build_engines.builders._export_types import TASK, base_type, can_export, exported_as
from build_engines.builders._loading import LOAD_ERRORS, check_loads
from build_engines.builders._quiet import quiet
from build_engines.errors import BuildFailure, CheckpointError, SpecError, StorageError, one_line
from build_engines.json_files import read_object
from build_engines.progress import Progress
from build_engines.remote_code import code_errors
from build_engines.spec import GROUP_SIZES, EngineSpec

__all__ = ["BUILDER", "OpenvinoBuilder", "choose_group_size", "compress_weights"]

_IR = "openvino_model.xml"
_WEIGHT_TYPES = ("u4", "u8", "f16", "bf16", "f32")


class OpenvinoBuilder:
    engine = "openvino"
    kind = "openvino-ir"
    packages = ("openvino", "optimum-intel", "optimum", "nncf", "transformers", "torch")
    # Asymmetric, as optimum does it where nothing is said.
    formats: Mapping[str, str] = {"none": "as the checkpoint", "int8": "int8_asym", "int4": "int4_asym"}
    has_limits = False

    def check(self, folder: Path, config: Mapping[str, Any], *, trusted: bool = False) -> None:
        _refuse_inexact(folder, config)
        kind = str(config["model_type"])
        with quiet():
            known = can_export(kind) or (trusted and base_type(folder, kind) is not None)
        if not known:
            raise CheckpointError(
                f"checkpoint '{folder}': architecture '{kind}' cannot be compiled to an OpenVINO text generator; "
                "choose a model of another architecture (llama, qwen2, mistral, gemma, phi3, gpt_neox and others work)."
            )

    def build(self, folder: Path, spec: EngineSpec, output: Path, scratch: Path, progress: Progress) -> dict[str, Any]:
        with quiet():
            progress.phase("export")
            check_loads(folder, progress, trusted=spec.trust_remote_code)
            _export(folder, scratch / "export", trusted=spec.trust_remote_code)
            progress.phase(f"compress to {spec.quant}" if spec.quant != "none" else "save")
            return compress_weights(scratch / "export" / _IR, spec, output / _IR)

    def verify(self, output: Path, vocab_size: int) -> None:
        from build_engines.builders._paged_form import TOLERANCE, paged_difference

        try:
            found, difference = paged_difference(output / _IR)
        except RuntimeError as error:  # whatever OpenVINO raises
            raise BuildFailure(f"engine '{output / _IR}': its paged form does not run ({error}).") from error
        if found != vocab_size:
            raise BuildFailure(f"engine '{output / _IR}': {found} logits, the checkpoint's vocabulary is {vocab_size}.")
        if not difference <= TOLERANCE:
            raise BuildFailure(
                f"engine '{output / _IR}': the logits of its paged form differ from the model's by {difference:.2g} of "
                f"the largest, at most {TOLERANCE} is rounding; the paged transformation loses a part of this "
                "architecture: choose a model of another one."
            )


BUILDER = OpenvinoBuilder()


def choose_group_size(input_sizes: set[int], wanted: int, subject: str) -> int:
    """The largest int4 group that divides every matrix's input size, or ``wanted`` where it does.

    Raises:
        SpecError: none does.
    """
    for size in (wanted,) if wanted else GROUP_SIZES:
        if all(inputs % size == 0 for inputs in input_sizes):
            return size
    tried = wanted or ", ".join(map(str, GROUP_SIZES))
    odd = sorted(inputs for inputs in input_sizes if inputs % (wanted or GROUP_SIZES[-1]))
    raise SpecError(
        f"group_size {tried}: no such group divides the matrices of '{subject}', whose input sizes include "
        f"{', '.join(map(str, odd[:4]))}; choose quant int8" + (", or another group size." if wanted else ".")
    )


def _refuse_inexact(folder: Path, config: Mapping[str, Any]) -> None:
    """What would be compiled without an error, and wrongly."""
    kind = config.get("model_type")
    if kind == "mpt":
        lost = "architecture 'mpt': the paged transformation loses its position bias (ALiBi)"
    elif (cap := config.get("attn_logit_softcapping", 50.0 if kind == "gemma2" else None)) is not None:
        lost = f"attn_logit_softcapping {cap} (as in Gemma 2): the export has no soft-cap inside attention"
    else:
        return
    raise CheckpointError(f"checkpoint '{folder}': {lost}, so its logits would be wrong; choose another model.")


def _export(folder: Path, output: Path, *, trusted: bool) -> None:
    """Write a stateful IR whose weights keep the checkpoint's precision."""
    kind = str(read_object(folder / "config.json")["model_type"])
    base = None if can_export(kind) else base_type(folder, kind)
    from optimum.exporters.openvino import main_export
    from optimum.intel.openvino import OVConfig

    output.mkdir(parents=True, exist_ok=True)
    try:
        with _full_disk(output), code_errors(folder, trusted=trusted), exported_as(kind, base):
            main_export(
                str(folder),
                output=output,
                task=TASK,
                framework="pt",
                library_name="transformers",
                local_files_only=True,
                trust_remote_code=trusted,
                stateful=True,
                convert_tokenizer=False,
                ov_config=OVConfig(dtype="auto"),
            )
    except LOAD_ERRORS as error:
        raise CheckpointError(
            f"checkpoint '{folder}': the OpenVINO exporter refuses it ({type(error).__name__}: {one_line(error)}); "
            "choose another model."
        ) from error
    for file in output.iterdir():  # the tokenizer files are copied from the checkpoint, unchanged
        if file.stem != "openvino_model":
            file.unlink()


def compress_weights(source: Path, spec: EngineSpec, target: Path) -> dict[str, Any]:
    """Compress the weights; what the IR itself would say about the KV cache is dropped, since serving decides it."""
    import nncf
    import openvino

    from build_engines.builders._paged_form import core

    model = core().read_model(source)
    record: dict[str, Any] = {"weights": spec.quant, "format": OpenvinoBuilder.formats[spec.quant]}
    if spec.quant == "int8":
        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    elif spec.quant == "int4":
        model, chosen = _to_int4(model, spec)
        record |= chosen
    else:
        record["format"] = _float_format(model)
    _forget_kv_precision(model)
    with _full_disk(target.parent):
        openvino.save_model(model, target, compress_to_fp16=False)
    return record


def _to_int4(model: Any, spec: EngineSpec) -> tuple[Any, dict[str, Any]]:
    """The model with its least sensitive inner layers at 4 bits, and what was chosen for it."""
    import nncf
    from openvino._offline_transformations import compress_model_transformation

    fp16 = spec.int4_rest == "fp16"
    if fp16:
        compress_model_transformation(model)  # before: it leaves a model alone that has compressed weights
    group_size = choose_group_size(_input_sizes(model), spec.group_size, spec.model)
    model = nncf.compress_weights(
        model,
        mode=nncf.CompressWeightsMode.INT4_ASYM,
        group_size=group_size,
        ratio=spec.int4_ratio,
        backup_mode=nncf.BackupMode.NONE if fp16 else nncf.BackupMode.INT8_ASYM,
        awq=True,  # without data: it evens out the channels by the weights alone
    )
    rest = {"int4_ratio": spec.int4_ratio, "int4_rest": spec.int4_rest, "int4_share": _int4_share(model)}
    return model, {"group_size": group_size, **rest}


@contextmanager
def _full_disk(folder: Path) -> Iterator[None]:
    """OpenVINO's writer says only that a stream broke."""
    try:
        yield
    except RuntimeError as error:
        if "iostream" not in str(error):
            raise
        raise StorageError(
            f"folder '{folder}': OpenVINO could not write its files ({error}); the disk is full or a limit was met: "
            "free some space or choose another folder."
        ) from error


def _forget_kv_precision(model: Any) -> None:
    if model.has_rt_info(["runtime_options", "KV_CACHE_PRECISION"]):
        options = model.get_rt_info("runtime_options").value
        options.pop("KV_CACHE_PRECISION")
        model.set_rt_info(options, "runtime_options")


def _input_sizes(model: Any) -> set[int]:
    """Input sizes of the matrices that int4 compresses: constants that a MatMul multiplies by."""
    sizes = set()
    for node in model.get_ops():
        if node.get_type_name() != "MatMul":
            continue
        weight = node.input_value(1).get_node()
        while weight.get_type_name() == "Convert":
            weight = weight.input_value(0).get_node()
        if weight.get_type_name() == "Constant" and len(weight.shape) == 2:
            sizes.add(int(weight.shape[1 if node.get_attributes()["transpose_b"] else 0]))
    return sizes


def _int4_share(model: Any) -> float:
    """The share of all weights, embeddings included, that have 4 bits."""
    sizes: dict[str, int] = dict.fromkeys(_WEIGHT_TYPES, 0)
    for node in model.get_ops():
        kind = node.get_element_type().get_type_name() if node.get_type_name() == "Constant" else ""
        if kind in sizes and _is_weight(node):
            sizes[kind] += math.prod(node.shape)
    return round(sizes["u4"] / max(sum(sizes.values()), 1), 4)


def _is_weight(constant: Any) -> bool:
    """A matrix; not its scales and zero points, of which a row or a group has one, and no vector."""
    return len(constant.shape) >= 2 and constant.shape[-1] > 1 and sum(size > 1 for size in constant.shape) > 1


def _float_format(model: Any) -> str:
    """The element type most weights have."""
    elements: dict[str, int] = {}
    for node in model.get_ops():
        if node.get_type_name() == "Constant" and node.get_element_type().is_real():
            name = node.get_element_type().get_type_name()
            elements[name] = elements.get(name, 0) + math.prod(node.shape)
    return max(elements, key=lambda name: elements[name], default="unknown")
