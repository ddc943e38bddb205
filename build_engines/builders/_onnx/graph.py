"""The exported graph: names of its free dimensions, the checker, shapes of what goes in and out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.errors import BuildFailure, one_line

__all__ = ["check_graph", "name_dimensions"]

_FREE = ("batch", "length")


def name_dimensions(path: Path) -> None:
    """Call the free dimensions batch and length instead of what the exporter found; weights are not touched."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    shape = model.graph.input[0].type.tensor_type.shape.dim
    names = {dim.dim_param: name for dim, name in zip(shape, _FREE, strict=True)}
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in names:
                dim.dim_param = names[dim.dim_param]
    onnx.save_model(model, str(path))


def check_graph(path: Path, vocab_size: int) -> None:
    """Run onnx.checker with shape inference, and hold inputs and output to the contract.

    Raises:
        BuildFailure: the graph is not sound, or its ends are others.
    """
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise BuildFailure(f"engine '{path}': onnx.checker refuses it ({one_line(error)}).") from error
    graph = onnx.load(str(path), load_external_data=False).graph
    found = {**_ends(graph.input), **_ends(graph.output)}
    wanted = {
        "input_ids": ("INT64", [*_FREE]),
        "attention_mask": ("INT64", [*_FREE]),
        "logits": ("FLOAT", [*_FREE, vocab_size]),
    }
    for name, end in wanted.items():
        if found.get(name) != end:
            raise BuildFailure(f"engine '{path}': '{name}' is {found.get(name)}, it must be {end}.")


def _ends(values: Any) -> Mapping[str, tuple[str, list[str | int]]]:
    import onnx

    return {
        value.name: (
            str(onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)),
            [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim],
        )
        for value in values
    }
