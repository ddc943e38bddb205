"""What INT4 leaves of FP16 weights, where matrices are nearly all of the model: a small one, made and built here."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from python_llm.errors import EngineFailure
from triton_llm_client.bench.isolated import Absent
from triton_llm_client.bench.statistics import Interval
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.targets import Figure

__all__ = ["measure", "write_checkpoint"]

_VOCABULARY = 512
_TEXT = Path(__file__).parents[1] / "shipped_prompts.txt"


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    """Bytes of all the artifact's files to bytes of the weights; one build, since builds give the same bytes."""
    with tempfile.TemporaryDirectory(prefix="triton-llm-int4-") as folder:
        checkpoint = write_checkpoint(Path(folder) / "checkpoint")
        whole = (checkpoint / "model.safetensors").stat().st_size
        say(f"building an INT4 artifact of {whole / 1e6:.0f} MB of FP16 weights")
        _build(checkpoint, Path(folder))
        ratio = _size(Path(folder) / "engines" / "int4") / whole
    return Figure("INT4 artifact / FP16 weights, bytes", Interval(ratio, ratio, ratio), 0.30, at_most=True)


def write_checkpoint(folder: Path) -> Path:
    """A Llama of two wide layers and few words, fp16. Raises Absent without the libraries."""
    try:
        import torch
        import transformers
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    except ImportError as error:
        raise Absent(f"INT4 build: {error}; install it with pip install 'triton-llm[build]'.") from error
    library: Any = transformers
    folder.mkdir(parents=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT.read_text("utf-8").splitlines(keepends=True), trainer)
    library.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(folder)
    config = library.LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=768,
        intermediate_size=1536,
        num_hidden_layers=2,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=0,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    library.LlamaForCausalLM(config).to(torch.float16).save_pretrained(folder)
    return folder


def _build(checkpoint: Path, folder: Path) -> None:
    options = ["--name", "int4", "--quant", "int4", "--no-quality-check", "--engines", str(folder / "engines")]
    command = [sys.executable, "-m", "triton_llm.cli", "build", str(checkpoint), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineFailure("no_build", f"bench: the INT4 build failed: {done.stderr.strip()[-600:]}")


def _size(artifact: Path) -> int:
    files = json.loads((artifact / "artifact.json").read_text("utf-8"))["files"]
    return sum(int(record["size"]) for record in files.values())
