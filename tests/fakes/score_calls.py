"""Asking a served scorer with tritonclient, as a stranger would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tritonclient.grpc as triton

__all__ = ["ask", "executions", "inferences", "inputs_of", "later"]


def inputs_of(ids: Any, mask: Any = None, top_k: int | None = None) -> list[Any]:
    tensors = {"input_ids": ids}
    if mask is not None:
        tensors["attention_mask"] = mask
    if top_k is not None:
        tensors["top_k"] = [[top_k]] * len(ids)
    found = []
    for name, values in tensors.items():
        array = np.asarray(values, np.int32)
        found.append(triton.InferInput(name, list(array.shape), "INT32"))
        found[-1].set_data_from_numpy(array)
    return found


def ask(client: Any, model: str, ids: Any, *outputs: str, **more: Any) -> Mapping[str, Any]:
    wanted = [triton.InferRequestedOutput(name) for name in outputs] or None
    result = client.infer(model, inputs_of(ids, **more), outputs=wanted)
    return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}


def later(client: Any, model: str, ids: Any, output: str, answers: list[Any], number: int) -> None:
    """Ask now; the answer, or the error, is put into ``answers[number]`` when it comes."""

    def put(result: Any, error: Any) -> None:
        answers[number] = error if error is not None else result.as_numpy(output)

    client.async_infer(model, inputs_of(ids), put, outputs=[triton.InferRequestedOutput(output)])


def executions(client: Any, model: str) -> int:
    return int(client.get_inference_statistics(model).model_stats[0].execution_count)


def inferences(client: Any, model: str) -> int:
    """Rows that Triton has counted."""
    return int(client.get_inference_statistics(model).model_stats[0].inference_count)
