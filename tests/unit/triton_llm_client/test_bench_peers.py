"""The peers' own files and subjects, on a checkpoint of two layers."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from gguf import GGUFReader

from llama_cpp import llama_logprobs
from tests.unit.build_engines.tiny_gguf import write_gguf
from tiny_checkpoint import make_tiny_checkpoint
from triton_llm_client.bench.load import Load
from triton_llm_client.bench.peer_gguf import peer_gguf
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.subjects import SUBJECTS, Absent, Setting


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("peer")
    return write_gguf(make_tiny_checkpoint(folder / "checkpoint"), folder / "tiny.gguf")


def types(file: GGUFReader, rank: int, without: Collection[str] = ()) -> set[str]:
    tensors = (tensor for tensor in file.tensors if len(tensor.shape) == rank and tensor.name not in without)
    return {tensor.tensor_type.name for tensor in tensors}


def test_the_copy_has_8_bit_matrices_and_everything_else(source: Path, tmp_path: Path) -> None:
    copy = peer_gguf(source, tmp_path, "int8")
    assert peer_gguf(source, tmp_path, "int8") == copy
    before, after = GGUFReader(source), GGUFReader(copy)
    told = {name: field.contents() for name, field in before.fields.items() if not name.startswith("GGUF.")}
    again = {name: field.contents() for name, field in after.fields.items() if not name.startswith("GGUF.")}
    assert again == told | ({"general.file_type": 7} if "general.file_type" in told else {})
    assert [tensor.name for tensor in after.tensors] == [tensor.name for tensor in before.tensors]
    assert types(after, 2) == {"Q8_0"}
    assert types(after, 1) == {"F32"}


def test_a_4_bit_artifacts_peer_has_4_bits_but_for_its_ends(source: Path, tmp_path: Path) -> None:
    copy = peer_gguf(source, tmp_path, "int4")
    assert copy != peer_gguf(source, tmp_path, "int8")
    ends = {"token_embd.weight", "output.weight"}
    assert types(GGUFReader(copy), 2, without=ends) == {"Q4_0"}
    assert {one.tensor_type.name for one in GGUFReader(copy).tensors if one.name in ends} == {"Q8_0"}
    again = peer_gguf(copy, tmp_path, "int4")
    assert [one.data.tobytes() for one in GGUFReader(again).tensors] == [
        one.data.tobytes() for one in GGUFReader(copy).tensors
    ], "what has 4 bits stays as it is"
    assert llama_logprobs(copy, list(range(200, 230)), 1)


def test_the_copy_is_the_same_model(source: Path, tmp_path: Path) -> None:
    prompt = list(range(200, 230))  # whose likeliest next token is no end token
    of_source = llama_logprobs(source, prompt, 5)
    of_copy = llama_logprobs(peer_gguf(source, tmp_path, "int8"), prompt, 20)
    for token, log_prob in of_source.items():
        assert of_copy[token] == pytest.approx(log_prob, abs=0.25), "8 bits round; another model would be far off"


@pytest.mark.parametrize("name", ["llamacpp", "transformers", "transformers-batching"])
def test_a_peer_answers_with_as_many_tokens_as_were_asked(name: str, source: Path, tmp_path: Path) -> None:
    (tmp_path / "artifact.json").write_text('{"model": {"vocab_size": 512}}')
    subject = SUBJECTS[name].open(Setting(tmp_path, "tiny", gguf=source))
    try:
        outcome = subject.run(Load(random_prompts(3, 20, seed="p", vocabulary=500), 2, output_tokens=5))
    finally:
        subject.close()
    assert [answer.tokens for answer in outcome.answers] == [5, 5, 5]
    assert all(0 < answer.ttft_seconds <= answer.total_seconds for answer in outcome.answers)
    assert name in subject.name
    assert "threads" in subject.flags


@pytest.mark.parametrize("name", ["llamacpp", "transformers", "transformers-batching"])
def test_without_its_file_a_peer_is_absent_and_says_what_to_do(name: str, tmp_path: Path) -> None:
    with pytest.raises(Absent, match="--gguf FILE"):
        SUBJECTS[name].open(Setting(tmp_path, "tiny"))
