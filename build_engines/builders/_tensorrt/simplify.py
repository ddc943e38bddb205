"""The ONNX graph made ready for TensorRT: constants folded by Polygraphy, what nothing reads removed."""

from __future__ import annotations

from pathlib import Path

from build_engines.errors import BuildFailure, one_line

__all__ = ["simplify"]

_LARGEST_FOLD = 1 << 20  # bytes a folded constant may add: more than that is quicker to compute than to read


def simplify(source: Path, target: Path) -> tuple[int, int]:
    """Write ``source`` to ``target``, weights beside it; returns the number of nodes before and after.

    Raises:
        BuildFailure: the graph cannot be folded.
    """
    import onnx
    import onnx_graphsurgeon as surgeon
    from polygraphy.backend.onnx import fold_constants, save_onnx
    from polygraphy.exception import PolygraphyException

    model = onnx.load(str(source))
    before = len(model.graph.node)
    try:
        folded = fold_constants(model, size_threshold=_LARGEST_FOLD, error_ok=False)
        tidy = surgeon.export_onnx(surgeon.import_onnx(folded).cleanup().toposort())
    except (PolygraphyException, surgeon.OnnxGraphSurgeonException, RuntimeError) as error:
        raise BuildFailure(f"engine '{source}': Polygraphy cannot fold its constants ({one_line(error)}).") from error
    save_onnx(tidy, str(target), external_data_path=f"{target.name}.data", size_threshold=1024)
    return before, len(tidy.graph.node)
