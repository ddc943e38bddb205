"""One response per request, for roles that answer at once: a mistake in one request touches no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils
from python_llm.contract import RoleContract
from python_llm.errors import EngineFailure, ServeError
from python_llm.response import output_arrays

__all__ = ["answer_each", "error_response", "output_response"]


def answer_each(
    requests: Sequence[Any], answer: Callable[[Any], Mapping[str, Any]], contract: RoleContract
) -> list[Any]:
    """Call ``answer`` for each request and return the responses in order."""
    return [_answer_one(request, answer, contract) for request in requests]


def output_response(outputs: Mapping[str, Any], contract: RoleContract) -> Any:
    tensors = [pb_utils.Tensor(name, array) for name, array in output_arrays(outputs, contract).items()]
    return pb_utils.InferenceResponse(output_tensors=tensors)


def error_response(error: ServeError) -> Any:
    code = getattr(pb_utils.TritonError, error.code)
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), code))


def _answer_one(request: Any, answer: Callable[[Any], Mapping[str, Any]], contract: RoleContract) -> Any:
    try:
        return output_response(answer(request), contract)
    except ServeError as error:
        return error_response(error)
    except Exception as error:
        pb_utils.Logger.log_error(f"request '{request.request_id()}': {error!r}")
        return error_response(EngineFailure("internal", f"request '{request.request_id()}': {error!r}."))
