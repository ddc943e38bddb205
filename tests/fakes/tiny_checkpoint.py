"""A tiny, real Hugging Face checkpoint, made on the spot: random but fixed weights and a tokenizer of its own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

__all__ = ["CHAT_TEMPLATE", "SPECIAL_TOKENS", "make_tiny_checkpoint"]

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_TEXT = """
The ferry left the small harbour at six in the morning, and the gulls followed it past the lighthouse.
A good server answers quickly, says clearly what went wrong, and never forgets a request it has taken.
When the river rises, the miller opens the upper gate first, then the lower one, and waits for the water to settle.
She wrote the numbers in a column: 12, 7, 305, 48 and 1996; their sum was larger than anyone had guessed.
def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)
The capital of a country is not always its largest city, and the largest city is not always the loudest.
Why do bread and beer both need yeast? Because something has to turn the sugar into bubbles.
Im Garten stehen drei alte Apfelbäume, und jeder trägt eine andere Sorte. L'hiver, la maison sent le café.
"Please bring the ladder," said the painter, "and the long brush; the ceiling is higher than it looks."
Tokens go in, tokens come out; between them a table of weights is read once for every step of the clock.
if (count > limit) { return "too many"; } else { return "fine"; }
Walking home, they counted the windows with a light behind them, and there were fewer than the night before.
"""


def make_tiny_checkpoint(
    folder: Path,
    *,
    architecture: str = "llama",
    vocab_size: int = 512,
    padded_vocab_size: int = 0,
    hidden_size: int = 64,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    context: int = 2048,
    dtype: str = "float32",
    seed: int = 0,
    **options: Any,
) -> Path:
    """Write a checkpoint that AutoModelForCausalLM and AutoTokenizer load, and return ``folder``.

    The same arguments give the same bytes. ``architecture`` is a transformers model type; ``options`` go into its
    configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    eos = _write_tokenizer(folder, vocab_size, context)
    _write_model(
        folder,
        architecture,
        dtype,
        seed,
        {
            "vocab_size": max(vocab_size, padded_vocab_size),
            "hidden_size": hidden_size,
            "intermediate_size": 2 * hidden_size,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "max_position_embeddings": context,
            "bos_token_id": eos["<|im_start|>"],
            "eos_token_id": eos["<|im_end|>"],
            "pad_token_id": eos["<|endoftext|>"],
            "tie_word_embeddings": False,
            **options,
        },
    )
    generation = {"bos_token_id": eos["<|im_start|>"], "eos_token_id": [eos["<|im_end|>"], eos["<|endoftext|>"]]}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", "utf-8")
    return folder


def _write_tokenizer(folder: Path, vocab_size: int, context: int) -> dict[str, int]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT.splitlines(keepends=True), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    return {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}


def _write_model(folder: Path, architecture: str, dtype: str, seed: int, options: dict[str, Any]) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    if not hasattr(AutoConfig.for_model(architecture), "num_key_value_heads"):
        del options["num_key_value_heads"]  # an architecture without grouped heads would carry it as a false fact
    config = AutoConfig.for_model(architecture, **options)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            _fill(name, weight, generator)
    model.to(getattr(torch, dtype)).save_pretrained(folder, safe_serialization=True)


def _fill(name: str, weight: Any, generator: Any) -> None:
    """Wide matrices, so that every layer moves the residual stream and greedy text does not fall into one token."""
    if weight.ndim < 2:
        return
    scale = 1.0 if "embed" in name or "wte" in name else 2.0 / math.sqrt(weight.shape[-1])
    weight.normal_(0.0, scale, generator=generator)
