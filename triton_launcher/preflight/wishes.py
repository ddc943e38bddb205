"""What a model's entry asks of its engine: its serving knobs, and its options by the library's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from python_llm.settings import ServingConfig

__all__ = ["Wishes"]

_DEFAULTS = ServingConfig()


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """0, False and "" are no wish. A limit at its default is none: the engine's own is taken."""

    max_running: int = 0
    max_sequence_len: int = 0
    max_num_tokens: int = 0
    kv_cache_bytes: int = 0
    kv_reuse: bool = False
    chunked_context: bool = False
    output_log_probs: bool = False
    prompt_log_probs: bool = False
    guided_backend: str = ""
    speculative: str = ""  # the library's decoding_type
    max_beam_width: int = 1
    lora_folders: tuple[str, ...] = ()
    max_lora_rank: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(serving: ServingConfig) -> Wishes:
        options = serving.engine_options
        lora = options.get("lora_config") or {}
        cache = options.get("kv_cache_config") or {}
        return Wishes(
            max_running=_said(serving, "max_running"),
            max_sequence_len=serving.max_sequence_len,
            max_num_tokens=_said(serving, "max_num_tokens"),
            kv_cache_bytes=int(cache.get("max_gpu_total_bytes") or _said(serving, "kv_cache_bytes")),
            kv_reuse=bool(cache.get("enable_block_reuse", serving.prefix_cache)),
            chunked_context=bool(options.get("enable_chunked_prefill", False)),
            output_log_probs=bool(options.get("gather_generation_logits", False)),
            guided_backend=str(options.get("guided_decoding_backend") or ""),
            speculative=str((options.get("speculative_config") or {}).get("decoding_type") or ""),
            max_beam_width=int(options.get("max_beam_width") or 1),
            lora_folders=tuple(map(str, lora.get("lora_dir") or ())),
            max_lora_rank=int(lora.get("max_lora_rank") or 0),
            options=options,
        )


def _said(serving: ServingConfig, knob: str) -> int:
    value = int(getattr(serving, knob))
    return 0 if value == getattr(_DEFAULTS, knob) else value
