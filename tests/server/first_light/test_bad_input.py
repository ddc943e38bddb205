"""Each bad input gets its one clear error over every route, and the server goes on."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from python_llm.errors import InvalidRequest, NotFound
from server_under_test import ServerUnderTest
from triton_llm_client import Client, GenerateParams

ROWS: list[tuple[dict[str, Any], str]] = [
    ({"text_input": ""}, "empty_prompt"),
    ({"input_ids": [3], "text_input": "x"}, "one_prompt"),
    ({"max_tokens": 4}, "one_prompt"),
    ({"text_input": "x", "max_tokens": 0}, "max_tokens_too_small"),
    ({"text_input": "x", "max_tokens": 4000}, "max_tokens_too_large"),
    ({"text_input": "hello " * 2_000_000}, "prompt_too_long"),  # 12 MB: more than Triton's usual stacks hold
    ({"input_ids": [-1]}, "id_out_of_vocabulary"),
    ({"text_input": "x", "temperature": -0.5}, "temperature_out_of_range"),
    ({"text_input": "x", "top_p": 1.5}, "top_p_out_of_range"),
    ({"text_input": "x", "max_tokns": 3}, "unknown_parameter"),
    ({"messages": "not JSON"}, "messages_not_json"),
    ({"messages": "[]"}, "messages_not_valid"),
]


@pytest.mark.parametrize(("body", "reason"), ROWS, ids=[f"{reason}-{n}" for n, (_, reason) in enumerate(ROWS)])
def test_bad_input_over_http(tiny_server: ServerUnderTest, body: dict[str, Any], reason: str) -> None:
    answer = httpx.post(f"{tiny_server.http_url}/v2/models/tiny-generator/generate", json=body, timeout=60)
    assert answer.status_code == 400
    assert f"[INVALID_ARG {reason}] " in answer.json()["error"]


def test_bad_input_over_grpc_is_a_typed_error(tiny_server: ServerUnderTest) -> None:
    with Client(tiny_server.grpc_url, model="tiny") as client:
        with pytest.raises(InvalidRequest) as caught:
            client.generate("x", GenerateParams(max_tokens=4000))
        assert caught.value.reason == "max_tokens_too_large"
        assert "4000" in caught.value.text
        for ids, reason in ([7] * 2048, "prompt_too_long"), ([1, 512], "id_out_of_vocabulary"):
            with pytest.raises(InvalidRequest) as caught:
                client.generate(ids)
            assert caught.value.reason == reason
        assert client.generate("x", GenerateParams(max_tokens=4, ignore_eos=True)).finish_reason == "length"


def test_many_refusals_leave_the_server_standing(tiny_server: ServerUnderTest) -> None:
    before = tiny_server.ready()[1]["restarts"]
    with Client(tiny_server.grpc_url, model="tiny") as client, Client(tiny_server.grpc_url, model="none") as nobody:
        for _ in range(40):
            with pytest.raises(InvalidRequest):
                client.generate("x", GenerateParams(max_tokens=0))
            with pytest.raises(NotFound):
                nobody.generate("x")
        assert client.generate("x", GenerateParams(max_tokens=2, ignore_eos=True)).finish_reason == "length"
    assert tiny_server.ready() == (200, {**tiny_server.ready()[1], "restarts": before})


def test_text_that_is_no_utf8(tiny_server: ServerUnderTest) -> None:
    errors: list[InferenceServerException | None] = []
    with InferenceServerClient(tiny_server.grpc_url) as client:
        client.start_stream(lambda result, error: errors.append(error))
        value = np.array([[b"caf\xe9"]], dtype=np.object_)
        tensor = InferInput("text_input", [1, 1], np_to_triton_dtype(value.dtype))
        tensor.set_data_from_numpy(value)
        client.async_stream_infer("tiny-generator", [tensor])
        client.stop_stream()
    assert len(errors) == 1
    assert "[INVALID_ARG invalid_utf8] text_input: " in str(errors[0])
