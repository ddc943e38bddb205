"""The scorer role over a small runner: what each bad input gets, and that it touches no other request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_artifact import make_echo_artifact
from python_llm.contract import CACHED_OUTPUTS
from python_llm.roles.scorer import ScorerRole
from python_llm.scoring.room import SharedRoom
from python_llm.scoring.runner import Floats, Ints
from python_llm.settings import ModelEntry, ServingConfig
from triton_python_backend_utils import InferenceRequest, InferenceResponse

VOCABULARY = 512


class NextIsLikely:
    """The likeliest token behind each one is the next higher id."""

    calls = 0

    def logits(self, input_ids: Ints, attention_mask: Ints) -> Floats:
        self.calls += 1
        found = np.zeros((*input_ids.shape, VOCABULARY), np.float32)
        np.put_along_axis(found, ((input_ids + 1) % VOCABULARY)[..., None], 5.0, 2)
        return found


class Broken:
    def logits(self, input_ids: Ints, attention_mask: Ints) -> Floats:
        raise MemoryError("no room for the logits")


@pytest.fixture(scope="module")
def artifact(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_echo_artifact(tmp_path_factory.mktemp("scorer") / "echo", checkpoint)


def role_over(artifact: Path, runner: Any = None, room: SharedRoom | None = None, **knobs: Any) -> ScorerRole:
    entry = ModelEntry(role="scorer", artifact=str(artifact), serving=ServingConfig(**knobs))
    return ScorerRole(
        entry, artifact / "1" / "model.json", runner or NextIsLikely(), room or SharedRoom(lambda: 1 << 40)
    )


def ask(ids: Any, *outputs: str, mask: Any = None, **more: Any) -> InferenceRequest:
    tensors = {"input_ids": np.asarray(ids, np.int32)} | {name: np.asarray(value) for name, value in more.items()}
    if mask is not None:
        tensors["attention_mask"] = np.asarray(mask, np.int32)
    return InferenceRequest(tensors, wanted=outputs or ("logits",))


def arrays(response: InferenceResponse) -> Mapping[str, Any]:
    assert response.error is None, response.error
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors}


def message(response: InferenceResponse) -> str:
    assert response.error is not None
    return response.error.message()


def test_unequal_requests_are_one_forward_pass_and_each_gets_its_own(artifact: Path) -> None:
    runner = NextIsLikely()
    requests = [ask([list(range(3, 3 + n))], "logits", "sum_log_probs", "num_scored") for n in (1, 9, 4)]
    answers = [arrays(response) for response in role_over(artifact, runner).execute(requests)]
    assert runner.calls == 1
    assert [answer["logits"].shape for answer in answers] == [(1, n, VOCABULARY) for n in (1, 9, 4)]
    assert [answer["num_scored"].tolist() for answer in answers] == [[[0]], [[8]], [[3]]]
    each = 5.0 - np.log(np.exp(5.0) + VOCABULARY - 1)
    np.testing.assert_allclose([a["sum_log_probs"][0, 0] for a in answers], [0.0, 8 * each, 3 * each], rtol=1e-5)


def test_padding_before_and_behind_the_tokens_changes_nothing(artifact: Path) -> None:
    wanted = ("token_log_probs", "scored_ids", "top_ids")
    behind = ask([[7, 8, 20, 0, 0]], *wanted, mask=[[1, 1, 1, 0, 0]], top_k=np.asarray([[1]], np.int32))
    before = ask([[0, 0, 7, 8, 20]], *wanted, mask=[[0, 0, 1, 1, 1]], top_k=np.asarray([[1]], np.int32))
    first, second = (arrays(response) for response in role_over(artifact).execute([behind, before]))
    np.testing.assert_array_equal(first["token_log_probs"][0, :3], second["token_log_probs"][0, 2:])
    assert first["token_log_probs"][0, 3:].tolist() == [0.0, 0.0]
    assert first["scored_ids"].tolist() == [[7, 8, 20, 0, 0]]
    assert second["top_ids"][0, 2:, 0].tolist() == [8, 9, 21]


def test_texts_are_scored_as_their_ids(artifact: Path) -> None:
    role, text = role_over(artifact), "The ferry left the harbour."
    request = InferenceRequest({"text_input": np.array([[text.encode()]], np.object_)}, wanted=["scored_ids", "logits"])
    (found,) = (arrays(response) for response in role.execute([request]))
    (by_ids,) = (arrays(response) for response in role.execute([ask(found["scored_ids"])]))
    np.testing.assert_array_equal(found["logits"], by_ids["logits"])


TEXT = np.array([[b"a"]], np.object_)
BAD: Mapping[str, tuple[InferenceRequest, str]] = {
    "id": (
        ask([[1, VOCABULARY]]),
        r"[INVALID_ARG id_out_of_vocabulary] row 0, token 1: 512; ids of this model are 0 to 511",
    ),
    "negative": (ask([[-1]]), "[INVALID_ARG id_out_of_vocabulary] row 0, token 0: -1"),
    "long": (ask([[1] * 2049]), "[INVALID_ARG request_too_long] row 0: 2049 tokens; at most 2048"),
    "no tokens": (ask(np.zeros((1, 0))), "[INVALID_ARG empty_prompt] row 0: it holds no tokens"),
    "no rows": (ask(np.zeros((0, 3))), "[INVALID_ARG empty_prompt] input_ids: zero rows"),
    "mask": (
        ask([[1, 2]], mask=[[1, 1, 1]]),
        "[INVALID_ARG wrong_shape] attention_mask: shape [1,3], input_ids has [1,2]",
    ),
    "hole": (ask([[1, 2, 3]], mask=[[1, 0, 1]]), "[INVALID_ARG mask_not_valid] attention_mask, row 0: zeros between"),
    "odd": (
        ask([[1, 2]], mask=[[1, 2]]),
        "[INVALID_ARG mask_not_valid] attention_mask, row 0: 2; it must be of 0 and 1",
    ),
    "nothing": (ask([[1, 2]], mask=[[0, 0]]), "[INVALID_ARG empty_prompt] row 0"),
    "both": (ask([[1]], text_input=TEXT), "[INVALID_ARG one_prompt] prompt: input_ids and text_input given"),
    "many": (ask([[1]], top_k=[[101]]), "[INVALID_ARG top_k_out_of_range] top_k 101: it must be from 1 to 100"),
    "unequal": (ask([[1], [2]], top_k=[[1], [2]]), "[INVALID_ARG top_k_out_of_range] top_k [1, 2]"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_gets_one_clear_error_and_its_neighbour_an_answer(artifact: Path, name: str) -> None:
    request, text = BAD[name]
    bad, good = role_over(artifact).execute([request, ask([[1, 2, 3]])])
    assert message(bad).startswith(text)
    assert arrays(good)["logits"].shape == (1, 3, VOCABULARY)


def test_what_breaks_a_forward_pass_fails_its_requests_by_name(artifact: Path) -> None:
    responses = role_over(artifact, Broken()).execute([ask([[1]]), ask([[600]]), ask([[2]])])
    texts = [message(response) for response in responses]
    assert texts[0] == texts[2] == "[INTERNAL engine_failed] forward pass of 2 requests: no room for the logits."
    assert "id_out_of_vocabulary" in texts[1]


def test_logits_that_shared_memory_cannot_hold_are_refused_and_compact_outputs_are_not(artifact: Path) -> None:
    room = SharedRoom(lambda: 100_000)
    full, compact, small = ask([[1] * 100]), ask([[1] * 100], "token_log_probs"), ask([[1] * 10])
    responses = role_over(artifact, room=room).execute([full, compact, small])
    assert message(responses[0]).startswith(
        "[UNAVAILABLE shared_memory_full] answer of 1 x 100 tokens: 204800 bytes, /dev/shm has 100000 free; ask for "
    )
    assert arrays(responses[1])["token_log_probs"].shape == (1, 100)
    assert arrays(responses[2])["logits"].shape == (1, 10, VOCABULARY)


def test_what_the_region_grew_to_is_room(artifact: Path) -> None:
    free = [1 << 30]
    role = role_over(artifact, room=SharedRoom(lambda: free[0]))
    arrays(role.execute([ask([[1] * 100])])[0])
    free[0] = 0
    arrays(role.execute([ask([[1] * 100])])[0])
    assert "shared_memory_full" in message(role.execute([ask([[1] * 101])])[0])


def test_behind_a_cache_all_outputs_are_asked_for(artifact: Path) -> None:
    role = role_over(artifact, scorer_cache_bytes=1 << 20)
    part, whole = role.execute([ask([[1, 2]], "sum_log_probs"), ask([[1, 2]], *CACHED_OUTPUTS)])
    assert message(part).startswith("[INVALID_ARG outputs_and_cache] outputs sum_log_probs: this scorer has a")
    assert arrays(whole).keys() == CACHED_OUTPUTS
