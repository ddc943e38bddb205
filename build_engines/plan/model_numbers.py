"""The numbers of a model that planning needs, from its config.json or given one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from build_engines.errors import CheckpointError, SpecError

__all__ = ["FAMILIES", "ModelNumbers", "read_numbers"]


@dataclass(frozen=True, kw_only=True)
class ModelNumbers:
    """Sizes in elements. ``family`` is transformers' model type, or ``numbers``."""

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    gated: bool = True  # the MLP has a gate beside up and down
    tied: bool = False  # the last layer is the embedding
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    norms: int = 2  # of a layer, each of the hidden size
    qk_norm: bool = False
    experts: int = 0
    experts_per_token: int = 0
    positions: int = 0  # learned positions; 0: rotary

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "context"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SpecError(f"{name} {value!r}: it must be a whole number, 1 or more; give the model's own.")
        if self.heads % self.kv_heads:
            raise SpecError(f"kv_heads {self.kv_heads}: it must divide the {self.heads} heads; give the model's own.")
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise SpecError(
                f"experts_per_token {self.experts_per_token}: it must be from 1 to the {self.experts} experts; give "
                "the model's own."
            )


@dataclass(frozen=True)
class _Family:
    """What a model type has that its config.json does not say, and where it says the rest."""

    always: Mapping[str, Any]
    keys: Mapping[str, str]  # of ours, where they differ from Llama's


_LLAMA_KEYS: Mapping[str, str] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "intermediate": "intermediate_size",
    "vocab": "vocab_size",
    "context": "max_position_embeddings",
}
_GPT2_KEYS = {
    "layers": "n_layer",
    "hidden": "n_embd",
    "heads": "n_head",
    "intermediate": "n_inner",
    "context": "n_positions",
}
_PLAIN = {"gated": False, "qkv_bias": True, "output_bias": True, "mlp_bias": True, "norm_bias": True}
_MIXTRAL_KEYS = {"experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"}
_QWEN_MOE_KEYS = {
    "experts": "num_experts",
    "experts_per_token": "num_experts_per_tok",
    "intermediate": "moe_intermediate_size",
}
FAMILIES: Mapping[str, _Family] = {
    "llama": _Family({}, {}),
    "mistral": _Family({}, {}),
    "mixtral": _Family({}, _MIXTRAL_KEYS),
    "phi3": _Family({}, {}),
    "qwen2": _Family({"qkv_bias": True}, {}),
    "qwen3": _Family({"qk_norm": True}, {}),
    "qwen3_moe": _Family({"qk_norm": True}, _QWEN_MOE_KEYS),
    "gemma": _Family({"tied": True}, {}),
    "gemma2": _Family({"tied": True, "norms": 4}, {}),
    "gpt_neox": _Family(_PLAIN, {}),
    "gpt2": _Family({**_PLAIN, "tied": True}, _GPT2_KEYS),
}
# Of `tie_word_embeddings`, where a config.json leaves it out: transformers' default, and the families that differ.
_TIED_BY_DEFAULT = {"gemma": True, "gemma2": True, "gpt2": True}


def read_numbers(config: Mapping[str, Any], subject: str) -> ModelNumbers:
    """The numbers in a config.json.

    Raises:
        CheckpointError: an architecture that is not planned here, or a number that is missing.
    """
    kind = str(config.get("model_type", ""))
    if kind not in FAMILIES:
        raise CheckpointError(
            f"checkpoint '{subject}': model_type '{kind}' is not planned here; there are: {', '.join(FAMILIES)}; give "
            "its numbers instead (--layers, --hidden, …)."
        )
    family = FAMILIES[kind]
    found = {ours: config.get(key) for ours, key in {**_LLAMA_KEYS, **family.keys}.items()}
    found["kv_heads"] = found.get("kv_heads") or found["heads"]
    missing = [key for ours, key in {**_LLAMA_KEYS, **family.keys}.items() if _is_missing(ours, found)]
    if missing:
        raise CheckpointError(
            f"checkpoint '{subject}': config.json has no {', '.join(missing)}; it must say them: mend it."
        )
    found["intermediate"] = found["intermediate"] or 4 * int(found["hidden"] or 0)
    found["head_dim"] = config.get("head_dim") or int(found["hidden"] or 0) // int(found["heads"] or 1)
    return ModelNumbers(family=kind, **{**found, **_options(config, kind), **family.always})


def _is_missing(ours: str, found: Mapping[str, Any]) -> bool:
    return found.get(ours) is None and ours != "intermediate"


def _options(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What any family may say of itself."""
    options: dict[str, Any] = {"tied": bool(config.get("tie_word_embeddings", _TIED_BY_DEFAULT.get(kind, False)))}
    if config.get("attention_bias"):
        options |= {"qkv_bias": True, "output_bias": True}
    if kind == "gpt2":
        options["positions"] = config.get("n_positions")
    return options
