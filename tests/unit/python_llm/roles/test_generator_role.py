"""The generator role as Triton calls it: model.py's four calls, the echo engine, Triton's own objects faked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triton_python_backend_utils as pb_utils
from echo_artifact import make_echo_artifact
from python_llm.contract import GENERATOR
from python_llm.errors import parse_error
from python_llm.model import TritonPythonModel
from python_llm.settings import CONTROL_SECRET_VARIABLE, ModelEntry, ServingConfig
from python_llm.tokenizer import Tokenizer
from server_under_test import wait_until
from triton_python_backend_utils import InferenceRequest, InferenceResponse, ResponseSender

TEXT = "The ferry left the small harbour"
SECRET = "drawn at start"
_PATIENCE_SECONDS = 60.0  # only catches hangs
_NUMPY = {"BOOL": np.bool_, "INT32": np.int32, "INT64": np.int64, "UINT64": np.uint64, "FP32": np.float32}


class Sender(ResponseSender):
    """A sender the test can wait for; ``broken`` makes it raise."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()
        self.broken = False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        with self.changed:
            if self.broken:
                self.changed.notify_all()
                raise RuntimeError("the caller's stream is gone")
            super().send(response, flags)
            self.changed.notify_all()

    def wait(self) -> list[InferenceResponse]:
        with self.changed:
            assert self.changed.wait_for(lambda: self.finals > 0, _PATIENCE_SECONDS), "no final response came"
        return self.responses

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.responses) >= count, _PATIENCE_SECONDS)

    @property
    def error(self) -> str:
        errors = [response.error.message() for response in self.wait() if response.error]
        assert len(errors) == 1
        return errors[0]

    @property
    def text(self) -> str:
        return "".join(response.value("text_output") for response in self.wait())

    @property
    def ids(self) -> list[int]:
        return [token_id for response in self.wait() for token_id in response.value("output_ids")]

    @property
    def reason(self) -> str:
        last = self.wait()[-1]
        assert last.error is None, last.error
        reason: str = last.value("finish_reason")
        return reason


def tensor(name: str, value: Any) -> npt.NDArray[Any]:
    row = GENERATOR.input(name)
    assert row is not None
    items = value if row.dims != (1,) else [value]
    if row.dtype == "BYTES":
        items = [item.encode() if isinstance(item, str) else item for item in items]
        return np.array([items], dtype=np.object_)
    return np.array([items], dtype=_NUMPY[row.dtype])


def request_of(
    request_id: str = "", *, parameters: dict[str, Any] | None = None, timeout_us: int = 0, **values: Any
) -> tuple[InferenceRequest, Sender]:
    sender = Sender()
    tensors = {name: tensor(name, value) for name, value in values.items()}
    return InferenceRequest(tensors, request_id, parameters or {}, timeout_us, sender), sender


class Served:
    """One loaded model."""

    def __init__(self, folder: Path, artifact: Path, serving: ServingConfig) -> None:
        entry = folder / "1" / "model.json"
        entry.parent.mkdir(parents=True)
        entry.write_text(ModelEntry("generator", str(artifact), serving).to_json(), "utf-8")
        self.model = TritonPythonModel()
        self.model.initialize({"model_repository": str(folder), "model_version": "1", "model_name": "echo-generator"})

    def send(self, request_id: str = "", **values: Any) -> Sender:
        request, sender = request_of(request_id, **values)
        assert self.model.execute([request]) is None
        return sender

    def control(self, operation: str, secret: str = SECRET) -> Sender:
        return self.send(control=json.dumps({"operation": operation, "secret": secret}))

    def status(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.control("status").wait()[0].value("text_output"))
        return record

    def wait_until_in_engine(self, count: int) -> None:
        def there() -> bool:
            stats = self.status()["stats"]
            return bool(stats["running"] + stats["waiting"] == count)

        wait_until(there, f"{count} requests in the engine", _PATIENCE_SECONDS)

    def wait_until_idle(self) -> None:
        def idle() -> bool:
            status = self.status()
            return bool(status["running"] == status["waiting"] == 0)

        wait_until(idle, "every request to be gone", _PATIENCE_SECONDS)


Serve = Callable[..., Served]


@pytest.fixture
def serve(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setenv(CONTROL_SECRET_VARIABLE, SECRET)
    served: list[Served] = []

    def start(serving: ServingConfig | None = None, **script: Any) -> Served:
        folder = tmp_path / str(len(served))
        artifact = make_echo_artifact(folder / "echo", checkpoint, script=script)
        served.append(Served(folder / "models" / "echo-generator", artifact, serving or ServingConfig()))
        return served[-1]

    yield start
    for each in served:
        each.model.finalize()


@pytest.fixture
def ids(tokenizer: Tokenizer) -> list[int]:
    return tokenizer.encode(TEXT, special_tokens=True)


def test_a_streamed_request(serve: Serve, ids: list[int]) -> None:
    sender = serve().send("x", text_input=TEXT, max_tokens=len(ids), stream=True)
    assert sender.text == TEXT
    assert sender.ids == ids
    assert sender.finals == 1
    last = sender.responses[-1]
    assert sender.reason == "length"
    assert last.value("num_input_tokens") == last.value("num_output_tokens") == len(ids)
    assert last.value("sequence_index") == 0
    for response in sender.responses:
        for output in response.output_tensors:
            assert output.name() in [row.name for row in GENERATOR.outputs]


def test_a_request_that_does_not_stream(serve: Serve, ids: list[int]) -> None:
    sender = serve().send("x", input_ids=ids, max_tokens=len(ids), seed=2**64 - 1)
    assert (sender.text, sender.reason, len(sender.responses)) == (TEXT, "length", 1)
    assert sender.responses[-1].value("seed_used") == 2**64 - 1


def test_messages_go_through_the_checkpoints_template(serve: Serve, tokenizer: Tokenizer) -> None:
    messages = json.dumps([{"role": "user", "content": "hi"}])
    sender = serve().send("x", messages=messages, max_tokens=40)
    expected = tokenizer.encode("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", special_tokens=False)
    assert sender.responses is not None
    assert sender.ids == [expected[n % len(expected)] for n in range(40)]
    assert sender.wait()[-1].value("num_input_tokens") == len(expected)


def test_a_stop_word(serve: Serve) -> None:
    served = serve()
    sender = served.send("x", text_input=TEXT, max_tokens=1000, stream=True, stop_words=["small", "never"])
    assert (sender.text, sender.reason) == ("The ferry left the ", "stop")
    served.wait_until_idle()


def test_many_requests_at_once_each_end_once(serve: Serve, ids: list[int]) -> None:
    served = serve(ServingConfig(max_running=4))
    pairs = [request_of(f"{n}", input_ids=ids, max_tokens=1 + n, stream=bool(n % 2)) for n in range(40)]
    served.model.execute([request for request, _ in pairs])
    for number, (_, sender) in enumerate(pairs):
        assert sender.reason == "length"
        assert sender.finals == 1
        assert len(sender.ids) == 1 + number
    served.wait_until_idle()


@pytest.mark.parametrize(
    ("values", "code", "reason"),
    [
        ({"text_input": b"\xff"}, "INVALID_ARG", "invalid_utf8"),
        ({}, "INVALID_ARG", "one_prompt"),
        ({"text_input": ""}, "INVALID_ARG", "empty_prompt"),
        ({"text_input": "a", "max_tokens": 0}, "INVALID_ARG", "max_tokens_too_small"),
        ({"text_input": "a", "max_tokens": 99999}, "INVALID_ARG", "max_tokens_too_large"),
        ({"input_ids": [99999]}, "INVALID_ARG", "id_out_of_vocabulary"),
        ({"text_input": "a", "parameters": {"temprature": 1}}, "INVALID_ARG", "unknown_parameter"),
        ({"stop": True}, "NOT_FOUND", "unknown_request"),
    ],
)
def test_a_refusal_is_one_error_with_its_code(serve: Serve, values: dict[str, Any], code: str, reason: str) -> None:
    sender = serve().send("x", **values)
    parsed = parse_error(sender.error)
    assert parsed is not None
    assert (parsed.code, parsed.reason) == (code, reason)
    error = sender.responses[-1].error
    assert error is not None
    assert error.code() == getattr(pb_utils.TritonError, code)
    assert (len(sender.responses), sender.finals) == (1, 1)


def test_one_bad_request_of_a_batch_hurts_no_other(serve: Serve, ids: list[int]) -> None:
    good, good_sender = request_of("good", input_ids=ids, max_tokens=3)
    bad, bad_sender = request_of("bad", text_input=b"\xff")
    odd, odd_sender = request_of("odd", text_input="a")
    odd.custom_parameters = {"odd": 1}
    serve().model.execute([bad, odd, good])
    assert good_sender.reason == "length"
    assert "invalid_utf8" in bad_sender.error
    assert "unknown_parameter" in odd_sender.error


class Unreadable(InferenceRequest):
    def inputs(self) -> list[pb_utils.Tensor]:
        raise RuntimeError("shared memory is gone")


def test_a_request_that_cannot_be_read_is_an_error_of_ours(serve: Serve) -> None:
    sender = Sender()
    serve().model.execute([Unreadable({}, "x", sender=sender)])
    assert "[INTERNAL internal] request 'x'" in sender.error


def test_a_full_queue(serve: Serve, ids: list[int]) -> None:
    served = serve(ServingConfig(max_running=1, max_queue_size=1), stall_at=1)
    for count, name in enumerate(("running", "waiting"), start=1):
        served.send(name, input_ids=ids)
        served.wait_until_in_engine(count)
    assert "[UNAVAILABLE queue_full]" in served.send("refused", input_ids=ids).error


def test_an_id_twice(serve: Serve, ids: list[int]) -> None:
    served = serve(stall_at=1)
    first = served.send("x", input_ids=ids)
    second = served.send("x", input_ids=ids)
    wait_until(lambda: first.finals or second.finals, "one of them to be refused", _PATIENCE_SECONDS)
    refused = first if first.finals else second  # two admission workers: either may come first
    assert "[INVALID_ARG duplicate_request_id]" in refused.error


def test_requests_without_an_id_do_not_meet(serve: Serve, ids: list[int]) -> None:
    served = serve()
    senders = [served.send(input_ids=ids, max_tokens=2) for _ in range(4)]
    assert [sender.reason for sender in senders] == ["length"] * 4


def test_stop_cancels_by_id(serve: Serve, ids: list[int]) -> None:
    served = serve(stall_at=3)
    sender = served.send("x", input_ids=ids, max_tokens=100, stream=True)
    sender.wait_for(1)
    stop = served.send("x", stop=True)
    assert stop.reason == "cancelled"
    assert (stop.text, stop.ids, stop.finals) == ("", [], 1)
    assert sender.reason == "cancelled"
    assert sender.ids == ids[: len(sender.ids)]
    served.wait_until_idle()


def test_a_caller_that_leaves(serve: Serve, ids: list[int]) -> None:
    served = serve(stall_at=3)
    sender = served.send("x", input_ids=ids, max_tokens=100, stream=True)
    sender.cancelled = True
    assert sender.reason == "cancelled"
    served.wait_until_idle()


@pytest.mark.parametrize(
    ("values", "serving"),
    [
        ({"timeout": 1000}, ServingConfig()),
        ({"timeout_us": 1000}, ServingConfig()),
        ({}, ServingConfig(default_timeout_seconds=0.001)),
    ],
)
def test_a_timeout(serve: Serve, ids: list[int], values: dict[str, Any], serving: ServingConfig) -> None:
    served = serve(serving, stall_at=1)
    assert served.send("x", input_ids=ids, **values).reason == "timeout"
    served.wait_until_idle()


def test_an_engine_that_fails(serve: Serve, ids: list[int]) -> None:
    served = serve(fail_at=2)
    assert "[INTERNAL engine_failed]" in served.send("x", input_ids=ids).error
    assert served.send("y", input_ids=ids, max_tokens=3).reason == "length"


def test_a_broken_sender_ends_its_request_alone(serve: Serve, ids: list[int], caplog: pytest.LogCaptureFixture) -> None:
    served = serve(step_seconds=0.001)
    with caplog.at_level("CRITICAL"):
        request, broken = request_of("broken", input_ids=ids, max_tokens=1000, stream=True)
        broken.broken = True
        served.model.execute([request])
        other = served.send("other", input_ids=ids, max_tokens=20, stream=True)
        assert other.reason == "length"
        served.wait_until_idle()
        assert served.status()["healthy"]


def test_control_and_drain(serve: Serve, ids: list[int]) -> None:
    served = serve(step_seconds=0.001)
    old = served.send("old", input_ids=ids, max_tokens=200, stream=True)
    old.wait_for(1)
    assert json.loads(served.control("drain").text)["draining"]
    assert "[UNAVAILABLE draining]" in served.send("new", input_ids=ids).error
    assert json.loads(served.control("probe").text)["ok"]
    assert old.reason == "length"
    assert "[INVALID_ARG control_refused]" in served.control("drain", "guess").error
    status = served.status()
    assert (status["healthy"], status["draining"]) == (True, True)
    assert status["steps"] >= 200


def test_retire(serve: Serve, ids: list[int]) -> None:
    served = serve(stall_at=1)
    running = served.send("x", input_ids=ids)
    served.wait_until_in_engine(1)  # else it may be refused instead
    assert json.loads(served.control("retire").text)["running"] == 0
    assert running.reason == "cancelled"
    assert "[UNAVAILABLE draining]" in served.send("y", input_ids=ids).error


def test_without_a_secret_nobody_controls(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONTROL_SECRET_VARIABLE)
    assert "[INVALID_ARG control_refused]" in serve().control("drain", "").error


def test_finalize_ends_everybody_once(serve: Serve, ids: list[int]) -> None:
    served = serve(ServingConfig(max_running=2), stall_at=2)
    senders = [served.send(f"{n}", input_ids=ids, stream=bool(n % 2)) for n in range(6)]
    served.model.finalize()
    for sender in senders:
        last = sender.wait()[-1]
        assert sender.finals == 1
        if last.error is None:
            assert sender.reason == "cancelled"
        else:  # not yet admitted when the end began
            assert "[UNAVAILABLE draining]" in sender.error


def test_a_model_that_cannot_start_says_why_and_which(tmp_path: Path) -> None:
    with pytest.raises(pb_utils.TritonModelException, match=r"x-generator: artifact '.*nowhere': no such folder"):
        start_without_artifact(tmp_path)


def start_without_artifact(folder: Path) -> None:
    entry = folder / "1" / "model.json"
    entry.parent.mkdir(parents=True)
    entry.write_text(ModelEntry("generator", "nowhere").to_json(), "utf-8")
    arguments = {"model_repository": str(folder), "model_version": "1", "model_name": "x-generator"}
    TritonPythonModel().initialize(arguments)
