"""The build as calls of the LLM API: one program quantises, compiles and saves every rank, and needs them all here."""

from __future__ import annotations

from typing import Any

from build_engines.builders._tensorrt_llm.calls import Call, Member
from build_engines.builders._tensorrt_llm.target import Target

__all__ = ["llm_call"]

_ENGINE = "tensorrt_llm._tensorrt_engine.LLM"
_LLMAPI = "tensorrt_llm.llmapi"
_LORA = "tensorrt_llm.lora_helper.LoraConfig"
_PLUGINS = "tensorrt_llm.plugin.PluginConfig"


def llm_call(target: Target, model: str, calibration: str) -> Call:
    """``LLM(…)``, whose construction builds the engine. ``calibration``: the folder of the local text, if any."""
    spec = target.spec
    arguments: dict[str, Any] = {
        "model": model,
        "dtype": "auto",
        "tensor_parallel_size": spec.tp,
        "pipeline_parallel_size": spec.pp,
    }
    if target.nodes > 1:
        arguments["gpus_per_node"] = spec.gpus_per_node
    if spec.trust_remote_code:
        arguments["trust_remote_code"] = True
    if spec.max_lora_rank:
        arguments |= {"enable_lora": True, "lora_config": _lora(target)}
    arguments["build_config"] = _build_config(target)
    if target.format.algo or target.kv.algo:
        arguments["quant_config"] = _quant_config(target)
    if calibration and target.calibrates:
        arguments["calib_config"] = Call(f"{_LLMAPI}.CalibConfig", {"calib_dataset": calibration})
    return Call(_ENGINE, arguments)


def _build_config(target: Target) -> Call:
    spec, limits = target.spec, target.limits
    arguments: dict[str, Any] = {
        "max_batch_size": limits.max_batch_size,
        "max_input_len": limits.max_input_len,
        "max_seq_len": limits.max_seq_len,
        "max_num_tokens": limits.max_num_tokens,
        "max_beam_width": spec.max_beam_width,
    }
    if spec.log_probs != "none":
        arguments["gather_generation_logits"] = True
    if spec.log_probs == "all":
        arguments["gather_context_logits"] = True
    if plugins := _plugins(target):
        arguments["plugin_config"] = Call(_PLUGINS, plugins)
    return Call(f"{_LLMAPI}.BuildConfig", arguments)


def _plugins(target: Target) -> dict[str, Any]:
    """The caller's options; LoRA's plugin must be there when the engine is built."""
    asked = dict(option.split("=", 1) for option in target.spec.plugins)
    lora = {"lora_plugin": "auto"} if target.spec.max_lora_rank else {}
    return {**lora, **{name: _SWITCHES.get(value, value) for name, value in asked.items()}}


_SWITCHES: dict[str, Any] = {"enable": True, "disable": False, "none": None}


def _quant_config(target: Target) -> Call:
    algo = f"{_LLMAPI}.QuantAlgo"
    arguments: dict[str, Any] = {}
    if target.format.algo:
        arguments["quant_algo"] = Member(algo, target.format.algo)
    if target.kv.algo:
        arguments["kv_cache_quant_algo"] = Member(algo, target.kv.algo)
    if target.layout.group_size and target.quant != "nvfp4":
        arguments["group_size"] = target.layout.group_size
    return Call(f"{_LLMAPI}.QuantConfig", arguments)


def _lora(target: Target) -> Call:
    arguments: dict[str, Any] = {"max_lora_rank": target.spec.max_lora_rank}
    if target.spec.lora_modules:
        arguments["lora_target_modules"] = list(target.spec.lora_modules)
    return Call(_LORA, arguments)
