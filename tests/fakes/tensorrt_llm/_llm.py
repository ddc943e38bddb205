"""LLM, for checkpoints and for engines: what it checks, and how a request becomes a job."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from itertools import count
from pathlib import Path
from queue import Empty
from typing import Any

from tensorrt_llm._executor import Executor, Job
from tensorrt_llm._guides import Guides
from tensorrt_llm._model import ToyModel, is_greedy
from tensorrt_llm._result import RequestOutput
from tensorrt_llm._script import Script
from tensorrt_llm._sequence import Decoding
from tensorrt_llm._shape import IS_NEW
from tensorrt_llm.llmapi import KvCacheConfig, TorchLlmArgs, TrtLlmArgs

__all__ = ["LLM", "EngineLLM"]

_BLOCKS = 1000  # where nothing says how much room the cache has


class LLM:
    """Of a checkpoint (the library's PyTorch backend)."""

    args_class: Any = TorchLlmArgs

    def __init__(self, model: str, **given: Any) -> None:
        self._args = vars(self.args_class(model=model, **given))
        folder = Path(model)
        self._script = Script.of(folder)
        self._limits = self._read_limits(json.loads((folder / "config.json").read_text("utf-8")))
        time.sleep(self._script.start_seconds)
        self._model = ToyModel(self._limits["vocab_size"], echo=self._script.echo)
        tokenizer = self._args["tokenizer"]
        self._guides = Guides(self._args["guided_decoding_backend"], str(tokenizer), self._model.vocab_size)
        kv = self._args["kv_cache_config"] or KvCacheConfig()
        self._executor = Executor(
            self._model,
            self._script,
            places=self._limits["max_batch_size"],
            block=kv.tokens_per_block,
            blocks=kv.max_tokens // kv.tokens_per_block if kv.max_tokens else _BLOCKS,
            ranks=self._limits["ranks"],
        )
        self._ids = count(1)

    def generate_async(
        self,
        inputs: Any,
        sampling_params: Any = None,
        lora_request: Any = None,
        streaming: bool = False,
        cache_salt: str | None = None,
    ) -> RequestOutput:
        return self._start(inputs, sampling_params, lora_request, streaming, 0.5)

    def _start(
        self, inputs: Any, sampling_params: Any, lora_request: Any, streaming: bool, priority: float
    ) -> RequestOutput:
        prompt = list(inputs["prompt_token_ids"]) if isinstance(inputs, Mapping) else list(inputs)
        self._check(prompt, sampling_params, lora_request)
        beams = sampling_params.n if sampling_params.use_beam_search else 0
        adapter = lora_request.lora_name if lora_request is not None else ""
        sequences = [
            Decoding(
                self._model, prompt, sampling_params, adapter, self._guides.matcher(sampling_params), i if beams else 0
            )
            for i in range(sampling_params.n)
        ]
        result = RequestOutput(next(self._ids), prompt, sampling_params.n, self._executor.abort)
        job = Job(result, prompt, sampling_params, sequences, streaming, priority)
        self._executor.submit(job)
        return result

    async def get_stats_async(self, timeout: float | None = 2) -> AsyncIterator[dict[str, Any]]:
        deadline = time.monotonic() + (timeout or 0)
        while self._args.get("enable_iter_perf_stats", True):
            try:
                yield self._executor.stats.get_nowait()
            except Empty:
                if time.monotonic() >= deadline:
                    return
                await asyncio.sleep(0.01)

    def shutdown(self) -> None:
        self._executor.shutdown()

    def _read_limits(self, config: Mapping[str, Any]) -> dict[str, int]:
        if "pretrained_config" in config:
            raise ValueError("the folder holds an engine; use tensorrt_llm._tensorrt_engine.LLM")
        return {
            "vocab_size": config["vocab_size"],
            "max_batch_size": self._args["max_batch_size"] or 2048,
            "max_seq_len": self._args["max_seq_len"] or config["max_position_embeddings"],
            "max_num_tokens": self._args["max_num_tokens"],
            "max_beam_width": self._args["max_beam_width"] or 1,
            "ranks": self._args["tensor_parallel_size"] * self._args["pipeline_parallel_size"],
        }

    def _check(self, prompt: list[int], params: Any, lora_request: Any) -> None:
        if params is None or params.detokenize:
            raise ValueError("the fake has no text: sampling_params must say detokenize=False")
        if params.end_id is None:
            raise ValueError("tokenizer is required to reset end_id if it is None, or end_id must be given")
        if params.max_tokens < 1:
            raise ValueError(f"max_tokens ({params.max_tokens}) must be at least 1")
        if len(prompt) + params.max_tokens > self._limits["max_seq_len"]:
            raise ValueError(f"prompt {len(prompt)} and max_tokens {params.max_tokens} exceed max_seq_len")
        if len(prompt) > self._limits["max_num_tokens"] and not self._args["enable_chunked_prefill"]:
            raise ValueError(f"prompt {len(prompt)} exceeds max_num_tokens without enable_chunked_prefill")
        if params.n > 1 and is_greedy(params) and not params.use_beam_search:
            raise ValueError("greedy decoding gives one sequence; n must be 1")
        if params.use_beam_search and (params.best_of or params.n) > self._limits["max_beam_width"]:
            raise ValueError("best_of exceeds max_beam_width")
        if lora_request is not None:
            self._check_adapter(lora_request)

    def _check_adapter(self, lora_request: Any) -> None:
        if not self._args["enable_lora"]:
            raise ValueError("lora_request: LLM was not given enable_lora")
        rank = json.loads((Path(lora_request.lora_path) / "adapter_config.json").read_text("utf-8"))["r"]
        if rank > self._args["lora_config"].max_lora_rank:
            raise ValueError(f"lora_request {lora_request.lora_name}: rank {rank} exceeds max_lora_rank")


if IS_NEW:

    def _generate_async(
        self: LLM,
        inputs: Any,
        sampling_params: Any = None,
        lora_request: Any = None,
        streaming: bool = False,
        cache_salt: str | None = None,
        priority: float = 0.5,
    ) -> RequestOutput:
        return self._start(inputs, sampling_params, lora_request, streaming, priority)

    def _check_health(self: LLM) -> bool:
        try:
            self._executor.check_health()
        except RuntimeError:
            return False
        return True

    LLM.generate_async = _generate_async  # type: ignore[method-assign]
    LLM._check_health = _check_health  # type: ignore[attr-defined]


class EngineLLM(LLM):
    """Of an engine folder (the library's TensorRT path)."""

    args_class = TrtLlmArgs

    def _read_limits(self, config: Mapping[str, Any]) -> dict[str, int]:
        if not {"pretrained_config", "build_config"} <= config.keys():
            raise ValueError("config.json has no pretrained_config and build_config: no engine")
        kv = self._args["kv_cache_config"]
        if kv is not None and kv.dtype != "auto":
            raise ValueError("kv_cache_config.dtype must be 'auto' for an engine")
        pretrained, self._build = config["pretrained_config"], config["build_config"]
        mapping = pretrained["mapping"]
        for name, built in (("tensor", mapping["tp_size"]), ("pipeline", mapping["pp_size"])):
            if self._args[f"{name}_parallel_size"] not in (1, built):
                raise ValueError(f"{name}_parallel_size must be the engine's, {built}")
        wanted = self._args["max_batch_size"] or self._build["max_batch_size"]
        return {
            "vocab_size": pretrained["vocab_size"],
            "max_batch_size": min(wanted, self._build["max_batch_size"]),
            "max_seq_len": self._build["max_seq_len"],
            "max_num_tokens": self._build["max_num_tokens"],
            "max_beam_width": self._build["max_beam_width"],
            "ranks": mapping["world_size"],
        }

    def _check(self, prompt: list[int], params: Any, lora_request: Any) -> None:
        super()._check(prompt, params, lora_request)
        if len(prompt) > self._build["max_input_len"]:
            raise ValueError(f"prompt {len(prompt)} exceeds max_input_len of the build")
        if lora_request is not None and not (self._build.get("plugin_config") or {}).get("lora_plugin"):
            raise ValueError("lora_request: the engine was built without lora_plugin")
        if params.logprobs is not None and not self._args["gather_generation_logits"]:
            raise ValueError("logprobs: LLM was not given gather_generation_logits")
        if params.prompt_logprobs is not None and not self._build["gather_context_logits"]:
            raise ValueError("prompt_logprobs: the build lacks gather_context_logits")
