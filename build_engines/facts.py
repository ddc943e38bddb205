"""What the manifest says about the model: read from the checkpoint's own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError, one_line
from build_engines.gguf_tokenizer import END_OF_TURN
from build_engines.json_files import read_object
from build_engines.remote_code import code_errors
from build_engines.rope import check_rope, exact_context
from build_engines.template import template_texts
from python_llm.artifact import ModelFacts

__all__ = ["end_token_ids", "read_facts"]


def read_facts(folder: Path, tokenizer: Path | None = None, *, trusted: bool = False) -> ModelFacts:
    """Facts of a Hugging Face folder. ``tokenizer``: where its tokenizer's files are; ``trusted``: its code may run.

    Raises:
        CheckpointError: transformers does not know the architecture, or a fact is missing.
    """
    from transformers import AutoConfig

    try:
        with code_errors(folder, trusted=trusted):
            config = AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=trusted)
    except (ValueError, KeyError, OSError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"checkpoint '{folder}': config.json cannot be used ({one_line(error)}); mend it, or fetch the checkpoint "
            "again."
        ) from error
    check_rope(folder, config)
    heads = _count(folder, config, "num_attention_heads")
    hidden = _count(folder, config, "hidden_size")
    return ModelFacts(
        architecture=str(_names(config.architectures or config.model_type)[0]),
        layers=_count(folder, config, "num_hidden_layers"),
        hidden_size=hidden,
        heads=heads,
        kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(config, "head_dim", None) or hidden // heads),
        vocab_size=_count(folder, config, "vocab_size"),
        context_length=exact_context(config, _count(folder, config, "max_position_embeddings")),
        end_token_ids=end_token_ids(folder, tokenizer),
    )


def _count(folder: Path, config: Any, name: str) -> int:
    value = getattr(config, name, None)
    if value is None:
        raise CheckpointError(f"checkpoint '{folder}': config.json has no {name}; it must say it: mend it.")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError(
            f"checkpoint '{folder}': {name} of config.json is {value!r}; it must be a whole number, 1 or more: mend it."
        )
    return value


def _names(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def end_token_ids(folder: Path, tokenizer: Path | None = None) -> tuple[int, ...]:
    """Every end token the checkpoint names, and those with which its chat template ends a turn.

    ``tokenizer``: where its tokenizer's files are, if not in ``folder`` itself.
    """
    ids = [index for name in ("config.json", "generation_config.json") for index in _end_ids(folder / name)]
    known = _special_tokens(tokenizer or folder, folder)
    settings = read_object(folder / "tokenizer_config.json")
    eos = settings.get("eos_token") or read_object(folder / "special_tokens_map.json").get("eos_token")
    texts = [str(eos.get("content") if isinstance(eos, dict) else eos)]
    template = "\n".join(template_texts(folder).values())
    texts += [text for text in END_OF_TURN if text in template]
    ids += [known[text] for text in texts if text in known]
    return tuple(dict.fromkeys(int(token) for token in ids))


def _end_ids(file: Path) -> list[int]:
    named = read_object(file).get("eos_token_id")
    ids = [] if named is None else _names(named)
    if not all(isinstance(index, int) for index in ids):
        raise CheckpointError(f"file '{file}': eos_token_id is {named!r}; it must be an id or a list of ids: mend it.")
    return ids


def _special_tokens(folder: Path, subject: Path) -> Mapping[str, int]:
    """Text to id of the special tokens, wherever the tokenizer's files say it."""
    try:
        return _read_special_tokens(folder)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint '{subject}': its tokenizer's files list added tokens in a form nobody reads ({error!r}); "
            "fetch the checkpoint again."
        ) from error


def _read_special_tokens(folder: Path) -> Mapping[str, int]:
    vocabulary = read_object(folder / "vocab.json") if not (folder / "tokenizer.json").is_file() else {}
    found = {str(text): index for text, index in vocabulary.items() if isinstance(index, int)}
    found |= read_object(folder / "added_tokens.json")
    added = read_object(folder / "tokenizer.json").get("added_tokens") or []
    found |= {entry["content"]: entry["id"] for entry in added}
    decoder = read_object(folder / "tokenizer_config.json").get("added_tokens_decoder") or {}
    return found | {entry["content"]: int(index) for index, entry in decoder.items()}
