"""The knobs that only engines of GPUs have: their words, and the rules that need nothing but the spec itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from build_engines.errors import SpecError

if TYPE_CHECKING:
    from build_engines.spec import EngineSpec

__all__ = ["FORMS", "GPU_KNOBS", "GROUPED", "KV_DTYPES", "LOG_PROBS", "SPECULATIVE", "check_gpu_knobs"]

# knob -> its default, at which it says nothing.
GPU_KNOBS: dict[str, object] = {
    "form": "",
    "tp": 1,
    "pp": 1,
    "kv_dtype": "auto",
    "calib": "",
    "gpu": "",
    "gpus_per_node": 8,
    "max_beam_width": 1,
    "max_lora_rank": 0,
    "lora_modules": (),
    "speculative": "none",
    "max_draft_len": 0,
    "log_probs": "none",
    "plugins": (),
}
FORMS = ("engine", "checkpoint")
KV_DTYPES = ("auto", "fp8", "int8", "nvfp4")
LOG_PROBS = ("none", "output", "all")
SPECULATIVE = ("none", "draft_tokens_external", "lookahead_decoding", "medusa", "eagle")
GROUPED = ("int4", "int4_awq", "w4a8_awq")  # quantisations whose weights share scales in groups of a size to choose


def check_gpu_knobs(spec: EngineSpec) -> None:
    """Refuse a word or a number that no builder could use.

    Raises:
        SpecError: which, why, and what to say instead.
    """
    for name, words in (("kv_dtype", KV_DTYPES), ("log_probs", LOG_PROBS), ("speculative", SPECULATIVE)):
        if getattr(spec, name) not in words:
            raise SpecError(f"{name} '{getattr(spec, name)}': it must be one of {', '.join(words)}.")
    if spec.form not in ("", *FORMS):
        raise SpecError(f"form '{spec.form}': it must be one of {', '.join(FORMS)}, or empty for what the source is.")
    for name in ("tp", "pp", "gpus_per_node", "max_beam_width"):
        if getattr(spec, name) < 1:
            raise SpecError(f"{name} {getattr(spec, name)}: it must be 1 or more; give the number of GPUs or beams.")
    for name in ("max_lora_rank", "max_draft_len"):
        if getattr(spec, name) < 0:
            raise SpecError(f"{name} {getattr(spec, name)}: it must be 0 (none) or more; leave it out.")
    _check_pairs(spec)


def _check_pairs(spec: EngineSpec) -> None:
    """Knobs that mean nothing without each other."""
    if spec.lora_modules and not spec.max_lora_rank:
        raise SpecError(
            f"lora_modules '{','.join(spec.lora_modules)}': LoRA needs a rank to be built for; set max_lora_rank too."
        )
    if (spec.speculative == "none") != (spec.max_draft_len == 0):
        raise SpecError(
            f"max_draft_len {spec.max_draft_len}: speculative '{spec.speculative}' is built for a number of draft "
            "tokens, and nothing else is; set both or neither."
        )
    for plugin in spec.plugins:
        name, _, value = plugin.partition("=")
        if not name or not value:
            raise SpecError(f"plugins '{plugin}': it must be OPTION=VALUE, as in gemm_plugin=auto.")
