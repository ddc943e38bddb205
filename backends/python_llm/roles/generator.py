"""The generator role: a decoupled Triton model over one engine."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils
from python_llm import engine as engines
from python_llm.admission import Admission
from python_llm.artifact import Artifact
from python_llm.contract import GENERATOR
from python_llm.control import Control
from python_llm.errors import EngineFailure, ServeError
from python_llm.generator import Generator
from python_llm.recorder import Recorder, Unrecorded
from python_llm.request import read_request
from python_llm.roles.answers import error_response, output_response
from python_llm.sampler import Sampler
from python_llm.settings import CONTROL_SECRET_VARIABLE, ModelEntry
from python_llm.tokenizer import Tokenizer

__all__ = ["GeneratorRole"]


class GeneratorRole:
    """Translates between Triton's requests and the Generator."""

    def __init__(self, entry: ModelEntry, model_json: Path) -> None:
        folder = entry.artifact_path(model_json)
        artifact = Artifact.open(folder)
        tokenizer = Tokenizer.load(folder)
        engine = engines.load(folder, entry.serving)
        end_ids = artifact.manifest.model.end_token_ids
        admission = Admission(tokenizer, engine.limits, engine.capabilities, entry.serving, end_ids)
        self._recorder = Recorder() if entry.serving.metrics_seconds else Unrecorded()
        self._generator = Generator(engine, tokenizer, entry.serving, admission, self._recorder)
        self._sampler = _start_sampler(self._generator, self._recorder, model_json, entry.serving.metrics_seconds)
        secret = os.environ.get(CONTROL_SECRET_VARIABLE, "")
        self._control = Control(self._generator, secret, lambda: _is_served(model_json))

    def execute(self, requests: Sequence[Any]) -> None:
        for request in requests:
            reply = TritonReply(request.get_response_sender())
            try:
                self._take(request, reply)
            except ServeError as error:
                self._refuse(reply, error)
            except Exception as error:
                pb_utils.Logger.log_error(f"request '{request.request_id()}': {error!r}")
                self._refuse(reply, EngineFailure("internal", f"request '{request.request_id()}': {error!r}."))

    def finalize(self) -> None:
        self._generator.close(grace_seconds=0.0)
        if self._sampler is not None:
            self._sampler.join()

    def _refuse(self, reply: TritonReply, error: ServeError) -> None:
        self._recorder.failed(error)
        reply.fail(error)

    def _take(self, request: Any, reply: TritonReply) -> None:
        values = read_request(request.inputs(), request.parameters(), GENERATOR)
        if "control" in values:
            self._control.handle(values["control"], reply)
        elif values.get("stop"):
            self._generator.cancel(request.request_id())
            reply.send({"text_output": "", "output_ids": (), "finish_reason": "cancelled"}, final=True)
        else:
            if "timeout" not in values and request.timeout():
                values["timeout"] = request.timeout()
            self._generator.submit(values, request.request_id() or uuid.uuid4().hex, reply)


def _is_served(model_json: Path) -> bool:
    """Whether Triton has this version; asked over gRPC, and only where the version makes way for another."""
    from python_llm.loopback import Loopback

    triton = Loopback()
    try:
        return triton.serves(model_json.parents[1].name, model_json.parent.name)
    finally:
        triton.close()


def _start_sampler(generator: Generator, recorder: Recorder, model_json: Path, seconds: float) -> Sampler | None:
    version = model_json.parent  # .../<Triton model>/<version>/model.json
    labels = {"model": version.parent.name, "version": version.name}
    return Sampler(generator, recorder, pb_utils, labels, seconds) if seconds else None


class TritonReply:
    """A Reply over Triton's response sender.

    Triton frees what a sender asks about with the final response, and dies of a question that is on its way then
    (a segmentation fault in TRITONBACKEND_ResponseFactoryIsCancelled, 2.50): question and final response take turns.
    """

    def __init__(self, sender: Any) -> None:
        self._sender = sender
        self._turn = threading.Lock()
        self._ended = False

    def send(self, outputs: Mapping[str, Any], *, final: bool) -> None:
        self._send(output_response(outputs, GENERATOR), final)

    def fail(self, error: ServeError) -> None:
        self._send(error_response(error), final=True)

    def is_cancelled(self) -> bool:
        with self._turn:
            return not self._ended and bool(self._sender.is_cancelled())

    def _send(self, response: Any, final: bool) -> None:
        if not final:
            self._sender.send(response)
            return
        with self._turn:
            self._ended = True
            self._sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
