"""The peer: Hugging Face transformers over the same checkpoint, its ``generate`` in batches that start together, and
its continuous batching."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from typing import Any

from triton_llm_client.bench.load import Answer, Load, Outcome
from triton_llm_client.bench.subjects import Absent, Setting
from triton_llm_client.bench.timeline import Timeline

__all__ = ["BatchingSubject", "GenerateSubject", "open_batching", "open_generate"]

_CACHE_BYTES = 2 << 30


def open_generate(setting: Setting) -> GenerateSubject:
    return GenerateSubject(_model(setting, "sdpa"))


def open_batching(setting: Setting) -> BatchingSubject:
    """Its cache is sized by the memory of a GPU; on a CPU it is told how much it may have."""
    subject = BatchingSubject(_model(setting, "sdpa_paged"))
    _tell_memory()
    try:
        subject.run(Load((tuple(range(100, 108)),), 1, output_tokens=2))
    except Exception as error:  # whatever a peer breaks with, it is not here
        raise Absent(f"transformers' continuous batching does not run here: {error!r}") from error
    return subject


class GenerateSubject:
    """As many prompts as are in flight go in one batch; the next batch waits for the last of them to end."""

    name = "transformers"

    def __init__(self, model: Any) -> None:
        self._model = model
        self.flags = f"{_flags(model)}, generate(), batches that start and end together"

    def run(self, load: Load) -> Outcome:
        started = time.perf_counter()
        answers = [answer for batch in _batches(load) for answer in self._batch(batch, load.output_tokens)]
        return Outcome(time.perf_counter() - started, tuple(answers))

    def close(self) -> None:
        del self._model

    def _batch(self, prompts: list[tuple[int, ...]], output_tokens: int) -> list[Answer]:
        import torch
        from transformers import StoppingCriteriaList

        line = Timeline()
        ids = torch.tensor(prompts)

        def step(input_ids: Any, scores: Any, **_: Any) -> Any:
            line.saw(1)
            return torch.zeros(len(prompts), dtype=torch.bool)

        self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=output_tokens,
            min_new_tokens=output_tokens,
            stopping_criteria=StoppingCriteriaList([step]),
        )
        return [line.answer()] * len(prompts)


class BatchingSubject:
    """``generate_batch``; its manager starts and ends with each load, and tells no times of single tokens."""

    name = "transformers-batching"

    def __init__(self, model: Any) -> None:
        self._model = model
        self.flags = f"{_flags(model)}, generate_batch()"

    def run(self, load: Load) -> Outcome:
        library: Any = import_module("transformers")
        config = library.GenerationConfig(
            do_sample=False, max_new_tokens=load.output_tokens, eos_token_id=-1, num_blocks=256, max_batch_tokens=256
        )
        started = time.perf_counter()
        answers: list[Answer] = []
        for batch in _batches(load):
            begin = time.perf_counter()
            found = self._model.generate_batch([list(prompt) for prompt in batch], config, progress_bar=False)
            took = time.perf_counter() - begin
            answers += [Answer(len(one.generated_tokens), took, took) for one in found.values()]
        if len(answers) != len(load.prompts):
            raise RuntimeError(f"{len(answers)} answers to {len(load.prompts)} prompts")
        return Outcome(time.perf_counter() - started, tuple(answers))

    def close(self) -> None:
        del self._model


def _model(setting: Setting, attention: str) -> Any:
    os.environ.setdefault("TQDM_DISABLE", "1")  # in the subject's own process
    try:
        import torch
        import transformers
    except ImportError as error:
        raise Absent(f"transformers: {error}; install it with pip install 'triton-llm[build]'.") from error
    if setting.gguf is None:
        raise Absent("transformers: the GGUF file that the artifact was built from is not here; say --gguf FILE.")
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    library: Any = transformers
    config = library.AutoConfig.from_pretrained(setting.gguf.parent, gguf_file=setting.gguf.name)
    model = library.AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=torch.float32)
    reader: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    weights = reader.load_gguf_checkpoint(str(setting.gguf), return_tensors=True, model_to_load=model)["tensors"]
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model.eval()


def _tell_memory() -> None:
    """transformers 4.57 asks the device, and subtracts from None where that is a CPU."""
    import torch

    cache: Any = import_module("transformers.generation.continuous_batching.cache")
    cache.get_device_and_memory_breakdown = lambda: (torch.device("cpu"), _CACHE_BYTES, 0, 0)


def _batches(load: Load) -> Iterator[list[tuple[int, ...]]]:
    prompts = [prompt for prompt in load.prompts if not isinstance(prompt, str)]
    for begin in range(0, len(prompts), load.in_flight):
        yield prompts[begin : begin + load.in_flight]


def _flags(model: Any) -> str:
    threads = len(os.sched_getaffinity(0))
    return f"transformers {version('transformers')}, {model.dtype} weights, {threads} threads"
