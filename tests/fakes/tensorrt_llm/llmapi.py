"""Configurations and parameters, made of the API facts."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tensorrt_llm._shape import API, make

__all__ = ["CapacitySchedulerPolicy", "ContextChunkingPolicy", "GuidedDecodingParams", "KvCacheConfig"]

SamplingParams = make("SamplingParams")
GuidedDecodingParams = make("GuidedDecodingParams")
KvCacheConfig = make("KvCacheConfig")
SchedulerConfig = make("SchedulerConfig")
DynamicBatchConfig = make("DynamicBatchConfig")
PeftCacheConfig = make("PeftCacheConfig")
CudaGraphConfig = make("CudaGraphConfig")
MoeConfig = make("MoeConfig")
TorchCompileConfig = make("TorchCompileConfig")
AttentionDpConfig = make("AttentionDpConfig")
ExtendedRuntimePerfKnobConfig = make("ExtendedRuntimePerfKnobConfig")
LookaheadDecodingConfig = make("LookaheadDecodingConfig")
MedusaDecodingConfig = make("MedusaDecodingConfig")
EagleDecodingConfig = make("EagleDecodingConfig")
MTPDecodingConfig = make("MTPDecodingConfig")
NGramDecodingConfig = make("NGramDecodingConfig")
DraftTargetDecodingConfig = make("DraftTargetDecodingConfig")
AutoDecodingConfig = make("AutoDecodingConfig")
TorchLlmArgs = make("TorchLlmArgs")
TrtLlmArgs = make("TrtLlmArgs")


def _enum(name: str) -> Any:
    values = next(values for full, values in API["enums"].items() if full.rpartition(".")[2] == name)
    return Enum(name, {value: value for value in values}, type=str)


CapacitySchedulerPolicy = _enum("CapacitySchedulerPolicy")
ContextChunkingPolicy = _enum("ContextChunkingPolicy")
BatchingType = _enum("BatchingType")
