"""The fake is as strict as the library it stands for, and behaves as the facts say of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fake_tensorrt_llm import NEW, make_tensorrt_artifact
from python_llm.engines.tensorrt.library import Library

Params = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, checkpoint: Path) -> Path:
    return make_tensorrt_artifact(tmp_path / "model", checkpoint, script={"step_seconds": 0.005})


@contextmanager
def opened(folder: Path, **given: Any) -> Iterator[Any]:
    llm = import_module("tensorrt_llm").LLM(str(folder), skip_tokenizer_init=True, **given)
    try:
        yield llm
    finally:
        llm.shutdown()


def params(**given: Any) -> Any:
    wanted = {"detokenize": False, "end_id": 0, "ignore_eos": True, "max_tokens": 8, **given}
    return import_module("tensorrt_llm").SamplingParams(**wanted)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 120))


async def ids_of(llm: Any, prompt: list[int], **given: Any) -> list[int]:
    result = await llm.generate_async(prompt, params(**given))
    ids: list[int] = result.outputs[0].token_ids
    return ids


def test_an_unknown_argument_raises_as_there(version: str, folder: Path) -> None:
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        import_module("tensorrt_llm").LLM(str(folder), max_batch=3)
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        import_module("tensorrt_llm.llmapi").KvCacheConfig(max_token=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_new_tokens'"):
        params(max_new_tokens=3)
    with opened(folder) as llm, pytest.raises(TypeError, match="unexpected keyword"):
        llm.generate_async([1], params(), timeout=3)


def test_what_only_one_version_has(version: str) -> None:
    library = Library("pytorch")
    assert library.takes_priority == (version == NEW)
    assert library.has_field("KvCacheConfig", "max_util_for_resume") == (version == NEW)
    assert library.has_field("DraftTargetDecodingConfig", "speculative_model_dir") == (version != NEW)
    assert library.has_field("TorchLlmArgs", "stream_interval")
    assert library.has_field("TorchLlmArgs", "env_overrides") == (version == NEW)


def test_streams_yield_one_object_that_grows(pinned: str, folder: Path) -> None:
    async def follow() -> None:
        with opened(folder) as llm:
            result = llm.generate_async([5, 6], params(logprobs=2), streaming=True)
            seen: list[int] = []
            async for output in result:
                assert output is result
                completion = output.outputs[0]
                assert completion.token_ids[: len(seen)] == seen
                assert completion.token_ids_diff == completion.token_ids[len(seen) :]
                assert len(completion.logprobs) == completion.length
                seen = list(completion.token_ids)
            assert len(seen) == 8
            assert result.finished
            assert result.outputs[0].finish_reason == "length"
            assert seen == await ids_of(llm, [5, 6])

    run(follow())


def test_an_aborted_request_is_cancelled(pinned: str, folder: Path) -> None:
    async def follow() -> None:
        with opened(folder) as llm:
            result = llm.generate_async([5, 6], params(max_tokens=200), streaming=True)
            async for output in result:
                if len(output.outputs[0].token_ids) == 3:
                    result.abort()
            assert result.aborted()
            assert result.outputs[0].finish_reason == "cancelled"
            assert 3 <= len(result.outputs[0].token_ids) < 200

    run(follow())


def test_no_seed_is_always_the_same_seed(pinned: str, folder: Path) -> None:
    async def follow() -> None:
        with opened(folder) as llm:
            sampled = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 16}
            assert await ids_of(llm, [5], **sampled) == await ids_of(llm, [5], **sampled)
            assert await ids_of(llm, [5], **sampled) == await ids_of(llm, [5], seed=0, **sampled)
            assert await ids_of(llm, [5], **sampled) != await ids_of(llm, [5], seed=1, **sampled)

    run(follow())


def test_what_the_library_asserts(pinned: str, folder: Path) -> None:
    async def follow() -> None:
        with opened(folder, enable_chunked_prefill=False, max_num_tokens=64) as llm:
            guided = import_module("tensorrt_llm.llmapi").GuidedDecodingParams(json_object=True)
            for given, prompt in (
                ({"n": 2}, [1]),  # greedy
                ({"end_id": None}, [1]),
                ({"guided_decoding": guided}, [1]),
                ({"max_tokens": 0}, [1]),
                ({}, [1] * 65),
                ({"max_tokens": 300}, [1]),
            ):
                with pytest.raises(ValueError, match=r"\w"):
                    llm.generate_async(prompt, params(**given))

    run(follow())


def test_log_probs_are_of_the_models_own_distribution(pinned: str, folder: Path) -> None:
    async def follow() -> None:
        with opened(folder) as llm:
            result = await llm.generate_async([5, 6, 7], params(logprobs=3, prompt_logprobs=1, temperature=5.0, seed=2))
            completion = result.outputs[0]
            assert all(token in row for token, row in zip(completion.token_ids, completion.logprobs, strict=True))
            assert all(len(row) in (3, 4) for row in completion.logprobs)
            assert [token in row for token, row in zip([6, 7], completion.prompt_logprobs, strict=True)] == [True, True]

    run(follow())
