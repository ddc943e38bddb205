"""Requests on the wire as they are, and every message that answers them: what a client library would smooth over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tritonclient.grpc import service_pb2
from tritonclient.utils import deserialize_bytes_tensor, np_to_triton_dtype, serialize_byte_tensor, triton_to_np_dtype

from python_llm.contract import ENSEMBLE, GENERATOR, UNARY, RoleContract, generator_model, role_model
from tests.soak.plan import Plan, Route

__all__ = ["Ending", "model_of", "request_message", "stop_message"]

_CONTRACTS: Mapping[Route, RoleContract] = {"generator": GENERATOR, "unary": UNARY, "ensemble": ENSEMBLE}


@dataclass
class Ending:
    """What one client saw until its request was over. ``left``: it went away and saw no more."""

    plan: Plan
    finals: int = 0
    errors: list[str] = field(default_factory=list)
    after_the_end: int = 0
    left: bool = False
    chunks: int = 0
    ids: list[int] = field(default_factory=list)  # of all sequences as they came
    finish_reasons: list[str] = field(default_factory=list)
    reused_blocks: int = 0  # where perf metrics were asked for

    @property
    def ends(self) -> int:
        return self.finals + len(self.errors)

    def take(self, response: Any, *, final: bool, error: str) -> None:
        """One message of the server."""
        if self.ends:
            self.after_the_end += 1
        if error:
            self.errors.append(error)
            return
        self.finals += final
        outputs = dict(_outputs(response))
        self.chunks += bool(outputs)
        self.ids += [int(i) for i in outputs.get("output_ids", np.empty(0)).reshape(-1)]
        self.reused_blocks += int(outputs.get("kv_cache_reused_blocks", np.zeros(1)).sum())
        said = outputs.get("finish_reason", np.empty(0, np.object_)).reshape(-1)
        self.finish_reasons += [word.decode() for word in said if word]


def model_of(name: str, route: Route) -> str:
    """The Triton model of the served model ``name`` that stands at the end of the route."""
    return {"generator": generator_model(name), "unary": role_model(name, "unary"), "ensemble": name}[route]


def request_message(name: str, plan: Plan) -> Any:
    request = service_pb2.ModelInferRequest(model_name=model_of(name, plan.route), id=plan.request_id)
    contract = _CONTRACTS[plan.route]
    for tensor, value in plan.values.items():
        _add(request, tensor, _array(contract, tensor, value))
    return request


def stop_message(name: str, request_id: str) -> Any:
    request = service_pb2.ModelInferRequest(model_name=generator_model(name), id=request_id)
    _add(request, "stop", np.array([[True]]))
    return request


def _array(contract: RoleContract, name: str, value: Any) -> npt.NDArray[Any]:
    if isinstance(value, np.ndarray):
        return value
    row = contract.input(name)
    assert row is not None, name
    is_text = row.dtype == "BYTES"
    array = np.array([value.encode()] if is_text else [value], np.object_ if is_text else triton_to_np_dtype(row.dtype))
    return array[np.newaxis] if contract.max_batch_size else array


def _add(request: Any, name: str, array: npt.NDArray[Any]) -> None:
    datatype = np_to_triton_dtype(array.dtype)
    request.inputs.add(name=name, datatype=datatype, shape=array.shape)
    raw = serialize_byte_tensor(array).item() if datatype == "BYTES" else array.tobytes()
    request.raw_input_contents.append(raw)


def _outputs(response: Any) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for row, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        if row.datatype == "BYTES":
            yield row.name, deserialize_bytes_tensor(raw)
        else:
            yield row.name, np.frombuffer(raw, triton_to_np_dtype(row.datatype))
