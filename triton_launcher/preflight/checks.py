"""Artifact, runtime facts and wishes → every problem at once, each with its remedy. A pure function."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from python_llm.artifact import Manifest
from triton_launcher.preflight.facts import RuntimeFacts
from triton_launcher.preflight.wishes import Wishes

__all__ = ["ENGINE", "KINDS", "problems"]

ENGINE = "tensorrt_llm-engine"
KINDS = (ENGINE, "tensorrt_llm-checkpoint")
_RANK = re.compile(r"rank(\d+)\.engine")
_LORA_RANK = 64  # of a checkpoint that is served without saying it: the library's default
_AGAIN = "build it again with 'make build-engine'"
# Least compute capability, by what a checkpoint's weights are (NVIDIA's CUDA programming guide).
_NEEDS: Mapping[str, tuple[int, int]] = {
    "FP8": (8, 9),
    "FP8_PER_CHANNEL_PER_TOKEN": (8, 9),
    "FP8_BLOCK_SCALES": (9, 0),
    "W4A8_AWQ": (8, 9),
    "NVFP4": (10, 0),
}


def problems(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> list[str]:
    """Why the artifact cannot serve this entry here; empty where it can. An artifact of another kind has none."""
    if manifest.kind not in KINDS:
        return []
    return [text for check in _CHECKS for text in check(manifest, facts, wishes)]


def local_ranks(manifest: Manifest) -> int:
    """Ranks of one node: all, or a node's share where the build says that there are several nodes."""
    return min(manifest.world_size, int(manifest.features.get("gpus_per_node") or manifest.world_size))


def _versions(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    found = facts.versions.get("tensorrt_llm")
    if found is None:
        yield "tensorrt_llm: not installed here; start the launcher in the GPU container (docs/tensorrt_llm.md)."
    for package in ("tensorrt_llm", "tensorrt") if manifest.kind == ENGINE else ():
        built, here = manifest.builder.get(package), facts.versions.get(package)
        if here is not None and built != here:
            yield (
                f"{package}: the engine was built by {built or 'an unknown version'}, here is {here}; an engine runs "
                f"with the version that built it: {_AGAIN} here, or use the container of {built or 'the build'}."
            )


def _gpus(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    world, needed = manifest.world_size, local_ranks(manifest)
    if manifest.tp * manifest.pp != world:
        yield f"world size {world}: tp {manifest.tp} x pp {manifest.pp} is {manifest.tp * manifest.pp}; {_AGAIN}."
    if not facts.gpus:
        yield f"gpus: zero are visible, {needed} are needed; start the container with --gpus all, and check nvidia-smi."
    elif len(facts.gpus) < needed:
        yield (
            f"gpus: {len(facts.gpus)} are visible, world size {world} needs {needed} on this node; make them visible "
            "(--gpus, CUDA_VISIBLE_DEVICES), or build with another TP and PP."
        )


def _capability(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    used = facts.gpus[: local_ranks(manifest)]
    kinds = sorted({gpu.capability for gpu in used})
    if len(kinds) > 1:
        yield f"gpus: compute capabilities {', '.join(kinds)} are mixed; ranks need GPUs of one kind: choose them."
        return
    built = manifest.builder.get("compute_capability")
    if manifest.kind == ENGINE and built and kinds and kinds[0] != built:
        yield (
            f"compute capability: the engine was built for {built}, here is {kinds[0]} ({used[0].name}); an engine "
            f"runs on the kind of GPU that built it: {_AGAIN} here."
        )
    needs = _NEEDS.get(str(manifest.quantisation.get("format")))
    if manifest.kind != ENGINE and needs and kinds and used[0].version < needs:
        yield (
            f"{manifest.quantisation['format']}: it needs compute capability {needs[0]}.{needs[1]}, here is {kinds[0]} "
            f"({used[0].name}); take a checkpoint of another quantisation, or another GPU."
        )


def _ranks(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    if manifest.kind != ENGINE:
        return
    found = {int(match[1]) for name in manifest.files if (match := _RANK.fullmatch(name))}
    due = set(range(manifest.world_size))
    if missing := sorted(due - found):
        yield f"rank files: {', '.join(f'rank{n}.engine' for n in missing)} missing of {manifest.world_size}; {_AGAIN}."
    if extra := sorted(found - due):
        yield f"rank files: {', '.join(f'rank{n}.engine' for n in extra)} are of another build; {_AGAIN}."


def _tokenizer(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    ids, vocabulary = facts.tokenizer_ids, manifest.model.vocab_size
    if ids is not None and ids > vocabulary:
        yield (
            f"tokenizer: it has {ids} ids, the model's vocabulary is {vocabulary}; they are of two models: {_AGAIN} "
            "from one checkpoint."
        )


def _limits(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    built = manifest.limits
    rows = (
        ("max_running", wishes.max_running, built.max_batch_size, "MAX_BATCH_SIZE"),
        ("max_sequence_len", wishes.max_sequence_len, built.max_seq_len, "MAX_SEQ_LEN"),
        ("max_num_tokens", wishes.max_num_tokens, built.max_num_tokens, "MAX_NUM_TOKENS"),
        (
            "max_beam_width",
            wishes.max_beam_width,
            int(manifest.features.get("max_beam_width") or 0),
            "--max-beam-width",
        ),
    )
    for knob, asked, limit, variable in rows:
        if limit and asked > limit:
            yield f"{knob} {asked}: the engine was built for {limit}; lower it, or build with a larger {variable}."
    if wishes.max_sequence_len > manifest.model.context_length:
        yield (
            f"max_sequence_len {wishes.max_sequence_len}: the model's context is {manifest.model.context_length}; "
            "lower it."
        )


# wish -> (what it is called, feature of the build, how it is built)
_FEATURES: Mapping[str, tuple[str, str]] = {
    "kv_reuse": ("KV cache reuse (prefix_cache)", "the plugin option use_paged_context_fmha=enable"),
    "chunked_context": ("chunked context", "the plugin option use_paged_context_fmha=enable"),
    "output_log_probs": ("log-probs", "--log-probs output"),
    "prompt_log_probs": ("log-probs of the prompt", "--log-probs all"),
}


def _features(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    if manifest.kind == ENGINE:
        for name, (what, how) in _FEATURES.items():
            if getattr(wishes, name) and manifest.features.get(name) is False:
                yield f"{what}: the engine was built without it; do not ask for it, or build with {how}."
    backend = wishes.guided_backend
    if backend and backend not in ("xgrammar", "llguidance"):
        yield f"guided_decoding_backend '{backend}': it must be xgrammar or llguidance."
    elif backend == "llguidance" and manifest.kind == ENGINE:
        yield "guided_decoding_backend 'llguidance': an engine has xgrammar alone; say xgrammar, or serve a checkpoint."
    elif backend and backend not in facts.versions:
        yield f"guided_decoding_backend '{backend}': {backend} is not installed here; install it, or name the other."


# decoding_type of an engine -> how the engine is built
_SPECULATIVE: Mapping[str, str] = {"Lookahead": "lookahead_decoding", "Medusa": "medusa", "Eagle": "eagle"}


def _speculation(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    asked, built = wishes.speculative, manifest.features.get("speculative")
    if manifest.kind != ENGINE or not asked or built is None:
        return
    if asked not in _SPECULATIVE:
        yield f"speculative_config '{asked}': an engine has {', '.join(_SPECULATIVE)}; say one, or serve a checkpoint."
    elif _SPECULATIVE[asked] != built:
        yield (
            f"speculative_config '{asked}': the engine was built with speculative '{built}'; leave it out, or build "
            f"with --speculative {_SPECULATIVE[asked]}."
        )


def _lora(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    if not (wishes.lora_folders or wishes.max_lora_rank):
        return
    fits, remedy = wishes.max_lora_rank or _LORA_RANK, "raise lora_config.max_lora_rank to"
    if manifest.kind == ENGINE:
        fits, remedy = int(manifest.features.get("max_lora_rank") or 0), "build with --max-lora-rank"
        if not fits:
            yield "lora_config: the engine was built without LoRA; build with --max-lora-rank, or leave adapters out."
            return
    ranks = {"max_lora_rank": wishes.max_lora_rank, **facts.lora_ranks}
    for name, rank in ranks.items():
        if rank > fits:
            yield f"LoRA '{name}': rank {rank}, at most {fits} fits; {remedy} {rank}."


def _memory(manifest: Manifest, facts: RuntimeFacts, wishes: Wishes) -> Iterator[str]:
    """Of one rank: its file, what a step needs beside it, and the KV cache asked for, or one sequence of it."""
    planned: Mapping[str, Any] = manifest.features.get("memory") or {}
    sizes = [record.size for name, record in manifest.files.items() if _RANK.fullmatch(name)]
    if manifest.kind != ENGINE:
        total = sum(record.size for name, record in manifest.files.items() if name.endswith(".safetensors"))
        sizes = [math.ceil(total / max(1, manifest.world_size))]
    if not sizes:
        return
    length = wishes.max_sequence_len or manifest.limits.max_seq_len
    cache = wishes.kv_cache_bytes or int(planned.get("kv_token", 0)) * length
    needed = max(sizes) + int(planned.get("activations", 0)) + cache
    for index, gpu in enumerate(facts.gpus[: local_ranks(manifest)]):
        if gpu.free < needed:
            yield (
                f"gpu {index} ({gpu.name}): {gpu.free / 1e9:.1f} GB free of {gpu.total / 1e9:.1f}, a rank needs about "
                f"{needed / 1e9:.1f}; end what else uses it, lower kv_cache_bytes or max_sequence_len, or build with "
                "more ranks or fewer bits."
            )


_CHECKS: tuple[Callable[[Manifest, RuntimeFacts, Wishes], Iterator[str]], ...] = (
    _versions,
    _gpus,
    _capability,
    _ranks,
    _tokenizer,
    _limits,
    _features,
    _speculation,
    _lora,
    _memory,
)
