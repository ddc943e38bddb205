"""The build as the library's own commands: quantise or convert the weights for every rank, then compile each.

Fewer GPUs than ranks do: a rank is compiled at a time, and quantising lays what a GPU cannot hold into host memory.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from build_engines.builders._tensorrt_llm.target import COMMANDS_ONLY, Target

__all__ = ["EXAMPLES", "Command", "commands"]

EXAMPLES = "TRTLLM_EXAMPLES"  # environment variable: the folder of the library's examples
_QUANTISE = "quantization/quantize.py"
_CONVERT = {"gpt_neox": "models/contrib/gptneox/convert_checkpoint.py"}
_BUILD = "trtllm-build"
_SAMPLES, _AWQ_SAMPLES = 512, 32  # quantize.py takes no more than 32 for AWQ


@dataclass(frozen=True)
class Command:
    """``program`` as the API facts name it; a flag's value is "" for a switch, and a tuple for several words."""

    program: str
    flags: tuple[tuple[str, str | tuple[str, ...]], ...]

    def argv(self, examples: str) -> list[str]:
        head = [self.program] if self.program == _BUILD else ["python3", f"{examples}/{self.program}"]
        return head + [word for name, value in self.flags for word in (f"--{name}", *_words(value))]

    def __str__(self) -> str:
        words = [shlex.quote(word) if "$" not in word else word for word in self.argv(f"${EXAMPLES}")]
        return " ".join(words)


def commands(target: Target, model: str, checkpoint: str, output: str, calibration: str) -> tuple[Command, ...]:
    """``checkpoint``: the folder between the two. ``calibration``: the local text's folder, if any."""
    by_script = target.numbers.family in COMMANDS_ONLY
    first = _convert(target, model, checkpoint) if by_script else _quantise(target, model, checkpoint, calibration)
    return first, _build(target, checkpoint, output)


def _quantise(target: Target, model: str, checkpoint: str, calibration: str) -> Command:
    samples = _AWQ_SAMPLES if "awq" in target.quant else _SAMPLES
    flags: list[tuple[str, str | tuple[str, ...]]] = [
        ("model_dir", model),
        ("dtype", "auto"),
        ("qformat", target.format.qformat),
        ("tp_size", str(target.spec.tp)),
        ("pp_size", str(target.spec.pp)),
        ("output_dir", checkpoint),
    ]
    if target.kv.algo:
        flags.append(("kv_cache_dtype", target.spec.kv_dtype))
    if "awq" in target.quant:
        flags.append(("awq_block_size", str(target.layout.group_size)))
    if target.calibrates:
        flags.append(("calib_size", str(samples)))
        flags += [("calib_dataset", calibration)] if calibration else []
    return Command(_QUANTISE, tuple(flags))


def _convert(target: Target, model: str, checkpoint: str) -> Command:
    dtype = str(target.config.get("torch_dtype") or "float16")
    flags: list[tuple[str, str | tuple[str, ...]]] = [
        ("model_dir", model),
        ("dtype", dtype),
        ("tp_size", str(target.spec.tp)),
        ("pp_size", str(target.spec.pp)),
        ("output_dir", checkpoint),
        ("workers", str(target.workers)),
    ]
    if target.spec.tp > 1:
        flags.append(("use_parallel_embedding", ""))
    if target.quant != "none":
        flags += [("use_weight_only", ""), ("weight_only_precision", target.quant.removesuffix("_wo"))]
    return Command(_CONVERT[target.numbers.family], tuple(flags))


def _build(target: Target, checkpoint: str, output: str) -> Command:
    spec, limits = target.spec, target.limits
    flags: list[tuple[str, str | tuple[str, ...]]] = [
        ("checkpoint_dir", checkpoint),
        ("output_dir", output),
        ("max_batch_size", str(limits.max_batch_size)),
        ("max_input_len", str(limits.max_input_len)),
        ("max_seq_len", str(limits.max_seq_len)),
        ("max_num_tokens", str(limits.max_num_tokens)),
        ("max_beam_width", str(spec.max_beam_width)),
        ("workers", str(target.workers)),
    ]
    flags += [("gather_generation_logits", "")] if spec.log_probs == "output" else []
    flags += [("gather_all_token_logits", "")] if spec.log_probs == "all" else []
    if spec.max_lora_rank:
        flags += [("lora_plugin", "auto"), ("max_lora_rank", str(spec.max_lora_rank))]
        flags += [("lora_target_modules", spec.lora_modules)] if spec.lora_modules else []
    if spec.speculative != "none":
        flags += [("speculative_decoding_mode", spec.speculative), ("max_draft_len", str(spec.max_draft_len))]
    flags += [(name, value) for name, _, value in (option.partition("=") for option in spec.plugins)]
    return Command(_BUILD, tuple(flags))


def _words(value: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (value,) if value else ()
