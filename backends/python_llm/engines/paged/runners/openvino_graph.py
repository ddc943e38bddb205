"""Changes to an OpenVINO graph before it is compiled."""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13

from python_llm.errors import CallerMistake

__all__ = ["gather_before_head"]

# What works on each logit alone, so that rows can be gathered before it.
_AFTER_HEAD = frozenset({"Add", "Subtract", "Multiply", "Divide", "Tanh", "Convert"})


def gather_before_head(model: ov.Model) -> None:
    """Compute logits of the wanted tokens only: gather their rows before the last matrix product."""
    head = _head(model)
    data = head.input_value(0)
    tokens = next(axis for axis, size in enumerate(data.get_partial_shape()) if size.is_dynamic)
    rows = opset13.parameter([-1], np.int64, name="wanted_rows")
    rows.output(0).get_tensor().set_names({"wanted_rows"})
    gathered = opset13.gather(data, rows, opset13.constant(np.int64(tokens)))
    head.input(0).replace_source_output(gathered.output(0))
    model.add_parameters([rows])
    model.validate_nodes_and_infer_types()


def _head(model: ov.Model) -> ov.Node:
    """The matrix product that makes logits: behind scaling, soft-capping, bias and conversion, if there are any."""
    node = model.get_results()[0].input_value(0).get_node()
    while node.get_type_name() != "MatMul":
        if node.get_type_name() not in _AFTER_HEAD:
            raise CallerMistake(
                f"model: {node.get_type_name()} stands between the last matrix product and the logits; the runner "
                f"knows {', '.join(sorted(_AFTER_HEAD))}: serve another model."
            )
        node = next(source for source in _sources(node) if not _is_constant(source))
    return node


def _sources(node: ov.Node) -> list[ov.Node]:
    return [value.get_node() for value in node.input_values()]


def _is_constant(node: ov.Node) -> bool:
    """A constant, or what is computed of constants alone (a decompressed weight)."""
    if node.get_type_name() == "Constant":
        return True
    sources = _sources(node)
    return bool(sources) and all(_is_constant(source) for source in sources)
