"""Serving knobs (`ServingConfig`) and the model entry (`ModelEntry`, the content of ``1/model.json``)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from python_llm.records import RecordError, read_record

__all__ = [
    "ADMIN_KEY_HEADER",
    "ADMIN_KEY_VARIABLE",
    "CONTROL_SECRET_VARIABLE",
    "GRPC_ADDRESS_VARIABLE",
    "ModelEntry",
    "Role",
    "ServingConfig",
]

# The launcher draws a secret at each start and hands it to the backend in this environment variable.
CONTROL_SECRET_VARIABLE = "TRITON_LLM_CONTROL_SECRET"

# Where the backend finds the gRPC port of the Triton it belongs to; set by the launcher.
GRPC_ADDRESS_VARIABLE = "TRITON_LLM_GRPC_ADDRESS"

# Triton's administrative APIs want this key in this header where the launcher listens beyond loopback.
ADMIN_KEY_HEADER = "triton-llm-admin-key"
ADMIN_KEY_VARIABLE = "TRITON_LLM_ADMIN_KEY"

KvPrecision = Literal["u8", "f16", "f32"]
InferencePrecision = Literal["auto", "uniform", "f32"]
Speculation = Literal["off", "prompt_lookup", "draft_model"]
ScorerDevice = Literal["auto", "cpu", "cuda"]
Role = Literal["tokenizer", "generator", "detokenizer", "unary", "scorer"]


@dataclass(frozen=True)
class ServingConfig:
    """Every serving knob with its default. Sizes in tokens, bytes or seconds as named."""

    max_running: int = 64  # sequences that share a forward pass
    max_queue_size: int = 256  # requests waiting beyond those running; more are refused with queue_full
    max_num_tokens: int = 256  # prompt and output tokens of one forward pass
    max_itl_ms: float = 500.0  # goal for the time between two tokens of a stream: prefill is sized to it; 0: none
    ageing_seconds: float = 30.0  # of waiting that raise a request's priority by one; 0: it does not rise
    default_max_tokens: int = 512  # for requests that do not say; cut to the context
    max_sequence_len: int = 0  # prompt plus output; 0: the model's context length
    default_timeout_seconds: float = 0.0  # for requests that do not say; 0: none
    exclude_input_in_output: bool = True  # for requests that do not say; false: texts begin with the prompt's
    kv_cache_bytes: int = 1 << 30  # 0: a share of the memory that is left once the weights are loaded
    memory_bytes: int = 0  # held by the generator's process before it refuses requests; 0: what the container has
    kv_cache_precision: KvPrecision = "u8"
    inference_precision: InferencePrecision = "auto"
    prefix_cache: bool = True
    kv_host_bytes: int = 0  # host memory for KV blocks that the cache had to give up; 0: none
    kv_disk_bytes: int = 0  # disk for them, in kv_disk_path; they outlive the server; 0: none
    kv_disk_path: str = ""  # an absolute folder of their own; processes and models may share it
    speculation: Speculation = "off"  # where guesses at next tokens come from; text is the same but for arithmetic
    draft_artifact: str = ""  # with draft_model: its artifact, absolute or relative to the model's own
    threads: int = 0  # engine threads; 0: one per core this process may use
    tokenizer_instances: int = 1  # processes of the ensemble's first and last step
    detokenizer_instances: int = 1
    metrics_seconds: float = 1.0  # between two updates of the metrics; 0: there are none
    delivery_share: float = 0.025  # of a core, for sending; beyond it a response carries several tokens; 1: never
    scorer_batch_tokens: int = 2048  # of a scorer: most tokens of a forward pass, padding included
    scorer_delay_ms: float = 5.0  # of a scorer: how long a request waits for others to share its batch
    scorer_cache_bytes: int = 0  # of a scorer: Triton's response cache, in the server's memory; 0: none
    scorer_device: ScorerDevice = "auto"  # of an ONNX scorer: auto takes a GPU where ONNX Runtime sees one
    engine_options: Mapping[str, Any] = field(default_factory=dict)  # by the engine library's own names, checked there

    def __post_init__(self) -> None:
        for name in (
            "max_running",
            "max_queue_size",
            "max_num_tokens",
            "default_max_tokens",
            "tokenizer_instances",
            "detokenizer_instances",
            "scorer_batch_tokens",
        ):
            _at_least(name, getattr(self, name), 1)
        for name in ("max_sequence_len", "threads", "default_timeout_seconds", "max_itl_ms", "ageing_seconds"):
            _at_least(name, getattr(self, name), 0)
        for name in ("kv_cache_bytes", "kv_host_bytes", "kv_disk_bytes", "memory_bytes", "metrics_seconds"):
            _at_least(name, getattr(self, name), 0)
        for name in ("scorer_delay_ms", "scorer_cache_bytes"):
            _at_least(name, getattr(self, name), 0)
        if (self.kv_disk_bytes or self.kv_disk_path) and not os.path.isabs(self.kv_disk_path):
            raise ValueError(
                f"kv_disk_path '{self.kv_disk_path}': it must be an absolute folder where kv_disk_bytes is set."
            )
        if not 0.0 < self.delivery_share <= 1.0:
            raise ValueError(f"delivery_share {self.delivery_share}: it must be above 0 and at most 1.")
        if (self.speculation == "draft_model") != bool(self.draft_artifact):
            raise ValueError(
                f"draft_artifact '{self.draft_artifact}': speculation 'draft_model' wants one, and nothing else does."
            )
        if self.max_num_tokens < self.max_running:
            raise ValueError(
                f"max_num_tokens {self.max_num_tokens}: a step must hold one token of each of the "
                f"{self.max_running} running sequences (max_running); raise it or lower max_running."
            )


def _at_least(name: str, value: float, bound: int) -> None:
    if not value >= bound:  # NaN is refused too
        raise ValueError(f"{name} {value}: it must be at least {bound}.")


@dataclass(frozen=True)
class ModelEntry:
    """One Triton model of ours: its role, its artifact and its serving knobs.

    ``artifact`` is relative to the folder that holds model.json, or absolute.
    """

    role: Role
    artifact: str
    serving: ServingConfig = field(default_factory=ServingConfig)

    @staticmethod
    def read(path: Path) -> ModelEntry:
        """Read a model.json; raises RecordError with the file's name."""
        try:
            return read_record(ModelEntry, json.loads(path.read_text("utf-8")), f"'{path}'")
        except (OSError, ValueError) as error:
            raise RecordError(f"'{path}': {error}; write it again with 'triton-llm repo add'.") from error

    def artifact_path(self, model_json: Path) -> Path:
        return (model_json.parent / self.artifact).resolve()

    def to_json(self) -> str:
        """The file's text: only knobs that differ from their defaults are written."""
        defaults = asdict(ServingConfig())
        serving = {k: v for k, v in asdict(self.serving).items() if v != defaults[k]}
        record = {"role": self.role, "artifact": self.artifact, "serving": serving}
        return json.dumps(record, indent=2) + "\n"
