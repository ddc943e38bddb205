"""INT8: weights in blocks with a scale and a zero point each; activations are quantised on the fly by the kernel.

Not ONNX Runtime's quantize_dynamic: its activations share one scale over the whole batch, so a text's logits would
depend on what else is in the batch, and half of the default model's likeliest tokens change (docs/scoring.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["BLOCK", "to_int8"]

BLOCK = 32  # weights that share a scale
_INT8_ACTIVATIONS = 4  # MatMulNBits' accuracy_level


def to_int8(source: Path, target: Path) -> dict[str, Any]:
    """Write ``source`` to ``target`` with its matrices in INT8; returns what the manifest says of it."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(
        onnx.load(str(source)),
        bits=8,
        block_size=BLOCK,
        is_symmetric=False,
        accuracy_level=_INT8_ACTIVATIONS,
    )
    quantizer.process()
    onnx.save_model(quantizer.model.model, str(target), save_as_external_data=True, location=f"{target.name}.data")
    return {"group_size": BLOCK, "activations": "int8, per row and block, on the fly"}
