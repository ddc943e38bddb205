"""What the manifest says about the model: read from the checkpoint's own configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError
from build_engines.gguf_tokenizer import END_OF_TURN
from build_engines.rope import check_rope, exact_context
from build_engines.template import template_texts
from python_llm.artifact import ModelFacts

__all__ = ["end_token_ids", "read_facts"]


def read_facts(folder: Path) -> ModelFacts:
    """Facts of a Hugging Face folder.

    Raises:
        CheckpointError: transformers does not know the architecture, or a fact is missing.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(str(folder), local_files_only=True)
    except (ValueError, KeyError, OSError, TypeError) as error:
        raise CheckpointError(f"checkpoint '{folder}': config.json cannot be used: {error}") from error
    check_rope(folder, config)
    heads = int(_fact(folder, config, "num_attention_heads"))
    hidden = int(_fact(folder, config, "hidden_size"))
    return ModelFacts(
        architecture=str((config.architectures or [config.model_type])[0]),
        layers=int(_fact(folder, config, "num_hidden_layers")),
        hidden_size=hidden,
        heads=heads,
        kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(config, "head_dim", None) or hidden // heads),
        vocab_size=int(_fact(folder, config, "vocab_size")),
        context_length=exact_context(config, int(_fact(folder, config, "max_position_embeddings"))),
        end_token_ids=end_token_ids(folder),
    )


def _fact(folder: Path, config: Any, name: str) -> Any:
    value = getattr(config, name, None)
    if value is None:
        raise CheckpointError(f"checkpoint '{folder}': config.json has no {name}; it must say it.")
    return value


def end_token_ids(folder: Path) -> tuple[int, ...]:
    """Every end token the checkpoint names, and those with which its chat template ends a turn."""
    ids: list[int] = []
    for name in ("config.json", "generation_config.json"):
        named = _json(folder / name).get("eos_token_id")
        ids += named if isinstance(named, list) else [named] if named is not None else []
    known = _special_tokens(folder)
    settings = _json(folder / "tokenizer_config.json")
    eos = settings.get("eos_token") or _json(folder / "special_tokens_map.json").get("eos_token")
    texts = [str(eos.get("content") if isinstance(eos, dict) else eos)]
    template = "\n".join(template_texts(folder).values())
    texts += [text for text in END_OF_TURN if text in template]
    ids += [known[text] for text in texts if text in known]
    return tuple(dict.fromkeys(int(token) for token in ids))


def _special_tokens(folder: Path) -> Mapping[str, int]:
    """Text to id of the special tokens, wherever the tokenizer's files say it."""
    vocabulary = _json(folder / "vocab.json") if not (folder / "tokenizer.json").is_file() else {}
    found = {str(text): index for text, index in vocabulary.items() if isinstance(index, int)}
    found |= _json(folder / "added_tokens.json")
    found |= {entry["content"]: entry["id"] for entry in _json(folder / "tokenizer.json").get("added_tokens") or []}
    decoder = _json(folder / "tokenizer_config.json").get("added_tokens_decoder") or {}
    return found | {entry["content"]: int(index) for index, entry in decoder.items()}


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        record = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"file '{file}': unreadable ({error}); fetch the checkpoint again.") from error
    return record if isinstance(record, dict) else {}
