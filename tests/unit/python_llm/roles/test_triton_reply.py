"""A reply asks its sender nothing while, or after, the final response goes out: Triton would die of it."""

from __future__ import annotations

import threading

import pytest

from python_llm.errors import EngineFailure
from python_llm.roles.generator import TritonReply
from triton_python_backend_utils import InferenceResponse, ResponseSender


class Gated(ResponseSender):
    """Its final response takes as long as the test wants; a question meanwhile or later is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.sending, self.gate = threading.Event(), threading.Event()

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        if flags:
            self.sending.set()
            assert self.gate.wait(30)
        super().send(response, flags)

    def is_cancelled(self) -> bool:
        assert not self.sending.is_set(), "a question after the final response began"
        return True


@pytest.mark.parametrize("fails", [False, True])
def test_no_question_overtakes_the_final_response(fails: bool) -> None:
    sender = Gated()
    reply = TritonReply(sender)
    assert reply.is_cancelled()

    def end() -> None:
        reply.fail(EngineFailure("internal", "x.")) if fails else reply.send({"text_output": ""}, final=True)

    answers: list[bool] = []
    ending, asking = threading.Thread(target=end), threading.Thread(target=lambda: answers.append(reply.is_cancelled()))
    ending.start()
    assert sender.sending.wait(30)
    asking.start()
    sender.gate.set()
    for thread in (ending, asking):
        thread.join(30)
    assert answers == [False]
    assert sender.finals == 1
