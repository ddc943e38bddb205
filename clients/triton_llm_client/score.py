"""Asking a served scorer for the log-probs of one text, over gRPC."""

from __future__ import annotations

import asyncio
import struct
import time
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2

from python_llm.errors import CallerMistake, ServeError, Unavailable
from triton_llm_client.failures import from_grpc
from triton_llm_client.score_line import Scored, ScoreLine

__all__ = ["ScoreClient", "ScoreOutcome"]

_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_LARGE = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
# All but logits, so that one request suits a scorer with a response cache too (docs/scoring.md).
_OUTPUTS = ("token_log_probs", "sum_log_probs", "num_scored", "top_ids", "top_log_probs", "scored_ids")


@dataclass(frozen=True, slots=True)
class ScoreOutcome:
    """A line's result as it stands in the output; ``error`` where it ended in one."""

    line: ScoreLine
    result: dict[str, Any]
    error: ServeError | None = None
    output_tokens: int = 0  # tokens scored


class ScoreClient:
    """One channel. A server that is away, or that is short of room, is asked again for ``retry_seconds``."""

    def __init__(self, url: str, *, model: str, retry_seconds: float = 60.0) -> None:
        scheme, separator, rest = url.rpartition("://")
        if separator and scheme != "grpc":
            raise CallerMistake(f"url '{url}': scheme '{scheme}'; scoring asks over grpc: name the gRPC port.")
        self._url, self._model, self._retry_seconds = f"grpc://{rest}", model, retry_seconds
        self._channel = grpc.aio.insecure_channel(rest, _LARGE)
        self._infer = self._channel.unary_unary(
            _METHOD,
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        self._answered = False

    async def answer(self, line: ScoreLine) -> ScoreOutcome:
        """The line's outcome.

        Raises:
            ServeError: the server is not there; the line can be asked later.
        """
        if line.error is not None:
            return ScoreOutcome(line, line.failure(line.error), line.error)
        try:
            scored = await self._ask(line)
        except Unavailable as error:
            if error.reason == "unreachable":
                raise
            return ScoreOutcome(line, line.failure(error), error)
        except ServeError as error:
            return ScoreOutcome(line, line.failure(error), error)
        return ScoreOutcome(line, line.answer(scored), output_tokens=scored.tokens)

    async def close(self) -> None:
        await self._channel.close()

    async def _ask(self, line: ScoreLine) -> Scored:
        pause, deadline = 0.25, time.monotonic() + self._retry_seconds
        while True:
            try:
                answer = await self._infer(_request(self._model, line))
            except grpc.aio.AioRpcError as failure:
                error = from_grpc(self._url, failure.code().name, failure.details() or "")
                again = isinstance(error, Unavailable) and self._answered and time.monotonic() < deadline
                if not again:
                    raise error from failure
            else:
                self._answered = True
                return _scored(answer)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 5.0)


def _request(model: str, line: ScoreLine) -> Any:
    request = service_pb2.ModelInferRequest(model_name=model)
    if isinstance(line.prompt, str):
        text = line.prompt.encode("utf-8", "surrogatepass")
        request.inputs.add(name="text_input", datatype="BYTES", shape=[1, 1])
        request.raw_input_contents.append(struct.pack("<I", len(text)) + text)
    else:
        request.inputs.add(name="input_ids", datatype="INT32", shape=[1, len(line.prompt)])
        request.raw_input_contents.append(struct.pack(f"<{len(line.prompt)}i", *line.prompt))
    for name in _OUTPUTS:
        request.outputs.add(name=name)
    return request


def _scored(answer: Any) -> Scored:
    raw = {output.name: content for output, content in zip(answer.outputs, answer.raw_output_contents, strict=True)}
    (tokens,) = struct.unpack("<i", raw["num_scored"])
    (log_prob,) = struct.unpack("<f", raw["sum_log_probs"])
    return Scored(tokens, log_prob)
