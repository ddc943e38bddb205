"""A torch module to an ONNX file, by torch's exporter over torch.export, with free batch and length."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError, one_line

__all__ = ["INPUTS", "OPSET", "OUTPUT", "export_onnx"]

INPUTS = ("input_ids", "attention_mask")
OUTPUT = "logits"
OPSET = 20
_LACKS = re.compile(r"No ONNX function found for <OpOverload\(op='(?P<op>[^']+)'")
_EXAMPLE = (2, 8)  # rows, tokens: both stay free


def export_onnx(module: Any, path: Path, subject: str) -> None:
    """Write ``module`` (see `load_source`) to ``path``, its weights beside it in ``path``.data.

    Raises:
        CheckpointError: the exporter lacks an operator of the model, or cannot follow its code.
    """
    import torch

    free = torch.export.Dim.DYNAMIC
    shapes = {name: {0: free, 1: free} for name in INPUTS}
    ids = torch.arange(_EXAMPLE[0] * _EXAMPLE[1]).reshape(_EXAMPLE) % 7
    try:
        with _quiet_exporter(), torch.no_grad():
            torch.onnx.export(
                module,
                kwargs={"input_ids": ids, "attention_mask": torch.ones_like(ids)},
                f=str(path),
                dynamo=True,
                opset_version=OPSET,
                input_names=list(INPUTS),
                output_names=[OUTPUT],
                dynamic_shapes=shapes,
                external_data=True,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise CheckpointError(_refusal(error, subject)) from error


def _refusal(error: BaseException, subject: str) -> str:
    chain = list(_causes(error))
    for cause in chain:
        if found := _LACKS.search(str(cause)):
            return (
                f"checkpoint '{subject}': the ONNX exporter lacks the operator '{found['op']}' (opset {OPSET}); choose "
                "a model of another architecture, or serve it with engine openvino."
            )
    why = one_line(chain[-1])
    return (
        f"checkpoint '{subject}': the ONNX exporter cannot follow its code ({type(chain[-1]).__name__}: {why}); choose "
        "a model of another architecture."
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """It warns of torchvision, which it does not need, and of what it freezes; and tells every constant it merges."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
