"""The scorer through a real Triton: the published example, batches of unequal lengths, the generator's own figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import tritonclient.grpc as triton
import tritonclient.http as httpclient
import tritonclient.utils.shared_memory as shm
from transformers import AutoModelForCausalLM
from tritonclient.utils import InferenceServerException

from build_engines.drift import DriftBounds, read_report
from python_llm.contract import CACHED_OUTPUTS
from python_llm.scoring.reading import log_softmax
from score_calls import ask, executions, inferences, inputs_of, later
from server_under_test import ServerUnderTest, wait_until
from triton_llm_client import Client, GenerateParams

IDS = np.random.default_rng(7).integers(0, 512, (1, 128)).astype(np.int32)
Floats = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def client(server: ServerUnderTest) -> Iterator[Any]:
    with triton.InferenceServerClient(server.grpc_url) as found:
        yield found


@pytest.fixture(scope="module")
def bounds(artifact: Path) -> DriftBounds:
    """Of the artifact's own drift report."""
    return read_report(artifact).bounds


def by_torch(checkpoint: Path, ids: Any) -> Floats:
    load: Any = AutoModelForCausalLM.from_pretrained
    with torch.inference_mode():
        found: Floats = load(str(checkpoint), dtype=torch.float32).eval()(torch.tensor(ids)).logits.numpy()
    return found


def assert_within(found: Floats, expected: Floats, bounds: DriftBounds) -> None:
    absolute = np.abs(found - expected)
    assert ((absolute <= bounds.absolute) | (absolute <= bounds.relative * np.abs(expected))).all(), absolute.max()


def test_the_published_example_runs_as_written(
    server: ServerUnderTest, checkpoint: Path, bounds: DriftBounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the port is another one, and data is set on the input."""
    kind = httpclient.InferenceServerClient
    monkeypatch.setattr(httpclient, "InferenceServerClient", lambda url: kind(url=f"127.0.0.1:{server.http_port}"))

    client = httpclient.InferenceServerClient(url="localhost:8000")
    inputs = [httpclient.InferInput("input_ids", [1, 128], "INT32")]
    inputs[0].set_data_from_numpy(IDS)
    outputs = [httpclient.InferRequestedOutput("logits")]
    result = client.infer(model_name="llama-7b", inputs=inputs, outputs=outputs)

    logits = result.as_numpy("logits")
    assert logits.shape == (1, 128, 512)
    assert_within(logits, by_torch(checkpoint, IDS), bounds)
    client.close()


def test_sixteen_unequal_requests_are_at_most_four_executions(client: Any, bounds: DriftBounds) -> None:
    rows = [IDS[:, :length] for length in range(5, 117, 7)]
    answers: list[Any] = [None] * len(rows)
    for number, row in enumerate(rows):
        later(client, "waits", row, "logits", answers, number)
    wait_until(lambda: all(answer is not None for answer in answers), "sixteen answers", 120)
    wait_until(lambda: inferences(client, "waits") == 16, "Triton to count them", 60)  # after it has answered
    assert executions(client, "waits") <= 4
    for row, answer in zip(rows, answers, strict=True):
        alone = ask(client, "llama-7b", row, "logits")["logits"]
        assert isinstance(answer, np.ndarray), answer
        assert_within(answer, alone, bounds)


def test_the_generator_agrees_on_the_prompt(server: ServerUnderTest, client: Any) -> None:
    ids = IDS[:, :96]
    found = ask(client, "llama-7b", ids, "token_log_probs", "sum_log_probs", "num_scored")
    params = GenerateParams(max_tokens=0, return_prompt_log_probs=True)
    with Client(server.grpc_url, model="tiny") as generator:
        completion = generator.generate(ids[0].tolist(), params)
    values = completion.prompt_log_probs[-95:]
    np.testing.assert_allclose(found["token_log_probs"][0, 1:], values, atol=1e-3)
    np.testing.assert_allclose(found["sum_log_probs"], [[np.sum(values)]], atol=1e-3 * 95)
    assert found["num_scored"].tolist() == [[95]]


def test_compact_outputs_are_those_of_the_logits(client: Any) -> None:
    ids = IDS[:, :40]
    found = ask(client, "llama-7b", ids, "logits", "token_log_probs", "top_ids", "top_log_probs", top_k=5)
    table = log_softmax(found["logits"][0])
    np.testing.assert_allclose(found["token_log_probs"][0, 1:], table[np.arange(39), ids[0, 1:]], atol=1e-5)
    assert found["top_ids"].tolist() == [np.argsort(-table, axis=1, kind="stable")[:, :5].tolist()]
    np.testing.assert_allclose(found["top_log_probs"][0], np.take_along_axis(table, found["top_ids"][0], 1), atol=1e-5)


def test_logits_come_through_system_shared_memory(client: Any) -> None:
    size = 4 * 128 * 512
    region = shm.create_shared_memory_region("scored", f"/scorer-test-{id(client)}", size)
    try:
        client.register_system_shared_memory("scored", f"/scorer-test-{id(client)}", size)
        output = triton.InferRequestedOutput("logits")
        output.set_shared_memory("scored", size)
        client.infer("llama-7b", inputs_of(IDS), outputs=[output])
        found = shm.get_contents_as_numpy(region, np.float32, [1, 128, 512])
        np.testing.assert_array_equal(found, ask(client, "llama-7b", IDS, "logits")["logits"])
        client.unregister_system_shared_memory("scored")
    finally:
        shm.destroy_shared_memory_region(region)


def test_a_cached_answer_is_a_hit_and_the_same(client: Any) -> None:
    def hits() -> int:
        return int(client.get_inference_statistics("cached").model_stats[0].inference_stats.cache_hit.count)

    first = ask(client, "cached", IDS[:, :30])
    wait_until(lambda: executions(client, "cached"), "Triton to count it", 60)  # it counts after it has answered
    before, ran = hits(), executions(client, "cached")
    second = ask(client, "cached", IDS[:, :30])
    assert hits() == before + 1
    assert executions(client, "cached") == ran
    assert first.keys() == second.keys() == CACHED_OUTPUTS
    for name in CACHED_OUTPUTS:
        np.testing.assert_array_equal(first[name], second[name])
    ask(client, "cached", IDS[:, :31])
    assert hits() == before + 1


def test_a_cached_scorer_refuses_a_part_of_its_outputs_and_logits(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="outputs_and_cache"):
        ask(client, "cached", IDS[:, :17], "sum_log_probs")
    with pytest.raises(InferenceServerException, match="unexpected inference output 'logits' for model 'cached'"):
        ask(client, "cached", IDS[:, :17], "logits")


BAD = {
    "vocabulary": ([[1, 512]], {}, r"\[INVALID_ARG id_out_of_vocabulary\] row 0, token 1: 512"),
    "length": ([[1] * 513], {}, r"\[INVALID_ARG request_too_long\] row 0: 513 tokens; at most 512"),
    "no tokens": (np.zeros((1, 0)), {}, r"\[INVALID_ARG empty_prompt\] row 0"),
    "mask": ([[1, 2]], {"mask": [[1, 1, 1]]}, r"\[INVALID_ARG wrong_shape\] attention_mask: shape \[1,3\]"),
    "rows": ([[1]] * 65, {}, "batch-size must be <= 64 for 'llama-7b'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_clear_error(client: Any, name: str) -> None:
    ids, more, text = BAD[name]
    with pytest.raises(InferenceServerException, match=text):
        ask(client, "llama-7b", ids, "logits", **more)


def test_an_empty_batch_and_another_type_are_refused_by_triton(client: Any) -> None:
    wide = triton.InferInput("input_ids", [1, 2], "INT64")
    wide.set_data_from_numpy(np.array([[1, 2]], np.int64))
    with pytest.raises(InferenceServerException, match="data-type is 'INT64', but model 'llama-7b' expects 'INT32'"):
        client.infer("llama-7b", [wide])
    with pytest.raises(InferenceServerException, match="input_ids"):
        ask(client, "llama-7b", np.zeros((0, 4)), "logits")
