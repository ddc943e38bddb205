"""Requests as clients of NVIDIA's ensemble and of vLLM's backend write them, against a real Triton."""

from __future__ import annotations

import json
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

import httpx
import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, InferInput

from server_under_test import ServerUnderTest

TEXT = "The ferry left the small harbour"
MODELS = ("tiny", "tiny-generator")
# What NVIDIA's own client of the ensemble sends with every request.
NVIDIA = {
    "text_input": TEXT,
    "max_tokens": np.int32(8),
    "bad_words": "",
    "stop_words": "",
    "stream": np.bool_(True),
    "beam_width": np.int32(1),
    "temperature": np.float32(1.0),
    "top_k": np.int32(1),
    "top_p": np.float32(0.0),
    "repetition_penalty": np.float32(1.0),
    "presence_penalty": np.float32(0.0),
    "frequency_penalty": np.float32(0.0),
    "random_seed": np.uint64(0),
    "end_id": np.int32(50256),
    "pad_id": np.int32(50256),
    "return_log_probs": np.bool_(False),
    "return_context_logits": np.bool_(False),
    "return_generation_logits": np.bool_(False),
}
_TYPES = {np.int32: "INT32", np.uint64: "UINT64", np.float32: "FP32", np.bool_: "BOOL"}


def generate(server: ServerUnderTest, model: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.http_url}/v2/models/{model}/generate", json=body, timeout=60)


def stream(server: ServerUnderTest, model: str, values: Mapping[str, Any], **more: Any) -> list[Mapping[str, Any]]:
    """Every response's outputs over one gRPC stream; raises what the server answers."""
    answers: SimpleQueue[Any] = SimpleQueue()
    with InferenceServerClient(server.grpc_url) as client:
        client.start_stream(lambda result, error: answers.put(error or result))
        client.async_stream_infer(
            model, [_input(*item) for item in values.items()], enable_empty_final_response=True, **more
        )
        found = []
        while True:
            answer = answers.get(timeout=60)
            if isinstance(answer, Exception):
                raise answer
            response = answer.get_response()
            found.append({output.name: answer.as_numpy(output.name) for output in response.outputs})
            if response.parameters["triton_final_response"].bool_param:
                return [outputs for outputs in found if outputs]


def _input(name: str, value: Any) -> InferInput:
    array = np.array([[value.encode()]], dtype=np.object_) if isinstance(value, str) else np.array([[value]])
    tensor = InferInput(name, [1, 1], "BYTES" if isinstance(value, str) else _TYPES[type(value)])
    tensor.set_data_from_numpy(array)
    return tensor


def text_of(responses: list[Mapping[str, Any]]) -> str:
    return "".join(outputs["text_output"].reshape(-1)[0].decode() for outputs in responses)


def test_nvidias_client_of_the_ensemble_works_unchanged(server: ServerUnderTest) -> None:
    expected = generate(server, "tiny-generator", text_input=TEXT, max_tokens=8, ignore_eos=True).json()["text_output"]
    for model in MODELS:
        responses = stream(server, model, NVIDIA)
        assert text_of(responses) == expected
        assert responses[-1]["finish_reason"].reshape(-1)[0] == b"length"
    assert generate(server, "tiny", text_input=TEXT, max_tokens=8, bad_words="", stop_words="", end_id=50256).json()[
        "text_output"
    ] == (expected)


def test_every_response_of_the_ensemble_has_every_output(server: ServerUnderTest) -> None:
    asked = {"return_perf_metrics": np.bool_(True), "return_log_probs": np.bool_(True)}
    responses = stream(server, "tiny", {**NVIDIA, **asked})
    assert {tuple(outputs) for outputs in responses} == {tuple(responses[0])}
    rows = [outputs["output_log_probs"].shape for outputs in responses]
    assert rows == [(1, 1, outputs["output_ids"].size) for outputs in responses]
    last = responses[-1]
    times = [last[f"{name}_time_ns"].item() for name in ("arrival", "first_scheduled", "first_token", "last_token")]
    assert times == sorted(times)
    assert times[0] > 0
    assert last["kv_cache_alloc_total_blocks"].item() >= 1


@pytest.mark.parametrize("model", MODELS)
def test_vllms_nested_parameters_over_http(server: ServerUnderTest, model: str) -> None:
    plain = generate(server, model, text_input=TEXT, max_tokens=5, ignore_eos=True).json()
    nested = {"stream": False, "temperature": 0, "max_tokens": 5, "ignore_eos": True, "n": 1}
    answer = generate(server, model, text_input=TEXT, parameters=nested)
    assert answer.status_code == 200
    assert answer.json()["text_output"] == plain["text_output"]
    assert answer.json()["num_output_tokens"] == 5


@pytest.mark.parametrize("model", MODELS)
def test_vllms_sampling_parameters_as_json_and_as_grpc_parameters(server: ServerUnderTest, model: str) -> None:
    said = {"temperature": "0.5", "seed": "7", "max_tokens": "6", "ignore_eos": "true"}
    texts = {
        text_of(stream(server, model, {"text_input": TEXT, "sampling_parameters": json.dumps(said)})),
        text_of(stream(server, model, {"text_input": TEXT}, parameters=said)),
        generate(server, model, text_input=TEXT, temperature=0.5, seed=7, max_tokens=6, ignore_eos=True).json()[
            "text_output"
        ],
    }
    assert len(texts) == 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"lora_task_id": 3}, "UNSUPPORTED not_supported"),
        ({"return_context_logits": True}, "UNSUPPORTED not_supported"),
        ({"embedding_bias_words": ["a"], "embedding_bias_weights": [1.0]}, "UNSUPPORTED not_supported"),
        ({"seed": 1, "random_seed": 2}, "INVALID_ARG given_twice"),
        ({"parameters": {"temprature": 1}}, "INVALID_ARG unknown_parameter"),
        ({"sampling_parameters": "{"}, "INVALID_ARG sampling_parameters_not_json"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    server: ServerUnderTest, model: str, body: dict[str, Any], reason: str
) -> None:
    answer = generate(server, model, text_input=TEXT, max_tokens=4, **body)
    assert answer.status_code == 400
    assert f"[{reason}] " in answer.json()["error"]


def test_several_sequences_over_every_route(server: ServerUnderTest) -> None:
    body = {"text_input": TEXT, "max_tokens": 6, "num_return_sequences": 3, "temperature": 1.0, "seed": 5}
    body |= {"ignore_eos": True, "return_log_probs": True}
    answers = [generate(server, model, **body).json() for model in MODELS]
    for answer in answers:
        assert answer["sequence_index"] == [0, 1, 2]
        assert answer["num_output_tokens"] == [6, 6, 6]
        assert len(answer["output_ids"]) == len(answer["output_log_probs"]) == 18
        assert answer["num_input_tokens"] > 0
    assert answers[0]["text_output"] == answers[1]["text_output"]
    assert len(set(answers[0]["text_output"])) > 1
    for model in MODELS:
        url = f"{server.http_url}/v2/models/{model}/generate_stream"
        texts = ["", "", ""]
        with httpx.stream("POST", url, json={**body, "stream": True}, timeout=60) as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    event = json.loads(line[5:])
                    texts[event["sequence_index"]] += event["text_output"]
        assert texts == answers[0]["text_output"]


@pytest.mark.parametrize("model", MODELS)
def test_beams_and_an_echoed_prompt(server: ServerUnderTest, model: str) -> None:
    body = {"text_input": TEXT, "max_tokens": 5, "beam_width": 2, "exclude_input_in_output": False}
    answer = generate(server, model, **body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["sequence_index"] == [0, 1]
    assert all(text.startswith(TEXT) for text in answer.json()["text_output"])


@pytest.mark.parametrize("model", MODELS)
def test_a_streamed_echo_begins_the_first_text_alone(server: ServerUnderTest, model: str) -> None:
    with_it, without = (
        stream(server, model, {**NVIDIA, "exclude_input_in_output": np.bool_(excludes)}) for excludes in (False, True)
    )
    assert text_of(with_it) == TEXT + text_of(without)
    ids = [np.concatenate([outputs["output_ids"].reshape(-1) for outputs in said]) for said in (with_it, without)]
    assert ids[0].tolist() == ids[1].tolist()


@pytest.mark.parametrize("model", MODELS)
def test_prompt_log_probs_without_a_token(server: ServerUnderTest, model: str) -> None:
    body = {"text_input": TEXT, "max_tokens": 0, "return_prompt_log_probs": True, "top_log_probs": 2}
    answer = generate(server, model, **body).json()
    count = answer["num_input_tokens"] - 1
    assert len(answer["prompt_log_probs"]) == count
    assert [len(top) for top in json.loads(answer["prompt_top_log_probs"])] == [2] * count
    assert (answer["text_output"], answer["finish_reason"]) == ("", "length")


@pytest.mark.parametrize(
    ("array", "dtype", "words"),
    [
        (np.array([[5]], np.int64), "INT64", "max_tokens"),
        (np.array([5], np.int32), "INT32", "shape"),
        (np.array([[5, 6]], np.int32), "INT32", "max_tokens"),
        (np.zeros((1, 0), np.int32), "INT32", "max_tokens"),
    ],
    ids=["type", "rank", "two", "none"],
)
def test_wrong_types_and_shapes_are_refused_and_the_server_goes_on(
    server: ServerUnderTest, array: Any, dtype: str, words: str
) -> None:
    """Most of it by Triton's core, in its own words."""
    answers: SimpleQueue[Any] = SimpleQueue()
    with InferenceServerClient(server.grpc_url) as client:
        client.start_stream(lambda result, error: answers.put(error or result))
        tensor = InferInput("max_tokens", list(array.shape), dtype)
        tensor.set_data_from_numpy(array)
        client.async_stream_infer("tiny-generator", [_input("text_input", TEXT), tensor])
        answer = answers.get(timeout=60)
    assert isinstance(answer, Exception)
    assert words in str(answer)
    assert generate(server, "tiny-generator", text_input=TEXT, max_tokens=2, ignore_eos=True).status_code == 200


@pytest.mark.parametrize("model", MODELS)
def test_a_guide_is_followed_and_a_broken_one_touches_its_own_request(server: ServerUnderTest, model: str) -> None:
    regex = {"guided_decoding_guide_type": "regex", "guided_decoding_guide": "[a-c]{4}", "max_tokens": 16}
    answer = generate(server, model, text_input=TEXT, **regex).json()
    assert len(answer["text_output"]) == 4
    assert set(answer["text_output"]) <= set("abc")
    assert answer["finish_reason"] == "stop"
    vllm = json.dumps({"structured_outputs": {"choice": ["harbour", "ferry"]}, "max_tokens": 16})
    assert generate(server, model, text_input=TEXT, sampling_parameters=vllm).json()["text_output"] in {
        "harbour",
        "ferry",
    }
    broken = generate(server, model, text_input=TEXT, **{**regex, "guided_decoding_guide": "[a-"})
    assert (broken.status_code, "[INVALID_ARG guide_not_valid] " in broken.json()["error"]) == (400, True)
    assert generate(server, model, text_input=TEXT, max_tokens=2, ignore_eos=True).status_code == 200
