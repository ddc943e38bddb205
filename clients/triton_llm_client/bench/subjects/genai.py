"""The peer: OpenVINO GenAI's ContinuousBatchingPipeline on the same IR, at its best."""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path
from typing import Any

from triton_llm_client.bench.load import Answer, BenchPrompt, Load, Outcome
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.subjects import Absent, Setting
from triton_llm_client.bench.timeline import Timeline

__all__ = ["GenaiSubject", "open_genai"]

_STEP_TOKENS = (256, 2048)  # both are tried; the better one is measured
_CACHE_GIGABYTES = 1


def open_genai(setting: Setting) -> GenaiSubject:
    """Try each of the two chunk sizes on the same load and keep the faster pipeline."""
    model = setting.artifact / "openvino_model.xml"
    if not model.is_file():
        raise Absent(
            f"OpenVINO GenAI reads openvino_model.xml; '{setting.artifact}' has none (another kind of engine)."
        )
    try:
        import openvino_genai  # noqa: F401
    except ImportError as error:
        raise Absent(f"OpenVINO GenAI: {error}; install it with pip install 'triton-llm[bench]'.") from error
    prompts = random_prompts(16, 128, seed="trial", vocabulary=setting.vocabulary())
    candidates = (GenaiSubject(setting.artifact, tokens) for tokens in _STEP_TOKENS)
    return max(candidates, key=lambda subject: _trial(subject, Load(prompts, in_flight=16, output_tokens=32)))


def _trial(subject: GenaiSubject, load: Load) -> float:
    subject.run(Load(load.prompts[:1], 1, 4))  # warm
    return subject.run(load).tokens_per_second


class GenaiSubject:
    """Steps the pipeline on the calling thread: its step() holds the GIL, so another thread would only wait."""

    name = "genai"

    def __init__(self, artifact: Path, step_tokens: int) -> None:
        import openvino_genai as genai

        threads = len(os.sched_getaffinity(0))
        properties = {"KV_CACHE_PRECISION": "u8", "INFERENCE_NUM_THREADS": threads}
        self._pipeline = genai.ContinuousBatchingPipeline(str(artifact), _scheduler(step_tokens), "CPU", properties)
        self._ids = count()
        self.flags = (
            f"openvino_genai {genai.__version__}, max_num_batched_tokens={step_tokens} (better of {_STEP_TOKENS}), "
            f"max_num_seqs=64, cache_size={_CACHE_GIGABYTES} GB, dynamic_split_fuse, {properties}"
        )

    def run(self, load: Load) -> Outcome:
        waiting = list(reversed(load.prompts))
        running: list[_Running] = []
        answers: list[Answer] = []
        started = time.perf_counter()
        while waiting or running:
            while waiting and len(running) < load.in_flight:
                running.append(_Running(self._add(waiting.pop(), load.output_tokens)))
            self._pipeline.step()
            for request in running:
                request.look()
            answers += [request.answer() for request in running if request.ended]
            running = [request for request in running if not request.ended]
        return Outcome(time.perf_counter() - started, tuple(answers))

    def close(self) -> None:
        del self._pipeline

    def _add(self, prompt: BenchPrompt, output_tokens: int) -> Any:
        import numpy as np
        import openvino as ov
        import openvino_genai as genai

        config = genai.GenerationConfig()
        config.max_new_tokens = output_tokens
        config.ignore_eos = True
        config.do_sample = False
        return self._pipeline.add_request(next(self._ids), ov.Tensor(np.array([prompt], np.int64)), config)


class _Running:
    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._line = Timeline()
        self.ended = False

    def look(self) -> None:
        """Read what the step made, as a server would that streams."""
        while self._handle.can_read():
            self._line.saw(sum(len(output.generated_ids) for output in self._handle.read().values()))
        self.ended = self._handle.get_status().name != "RUNNING"

    def answer(self) -> Answer:
        return self._line.answer()


def _scheduler(step_tokens: int) -> Any:
    import openvino_genai as genai

    config = genai.SchedulerConfig()
    config.max_num_batched_tokens = step_tokens
    config.max_num_seqs = 64
    config.cache_size = _CACHE_GIGABYTES
    config.dynamic_split_fuse = True
    config.enable_prefix_caching = False  # the prompts share nothing
    return config
