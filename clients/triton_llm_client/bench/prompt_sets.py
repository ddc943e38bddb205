"""The prompts to choose from: what a load is made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from random import Random

from python_llm.errors import CallerMistake
from triton_llm_client.bench.load import BenchPrompt
from triton_llm_client.bench.prompts import random_prompts

__all__ = ["PROMPT_SETS", "Wanted", "prompt_set"]

_SHIPPED = Path(__file__).with_name("shipped_prompts.txt")
_SHARED_PART = 0.8  # of a prompt's tokens, in the set with a shared prefix


@dataclass(frozen=True)
class Wanted:
    """How many prompts, of how many tokens where the set leaves that open, from which ids (or how many ids)."""

    count: int
    length: int
    seed: str
    vocabulary: int | Sequence[int]


def prompt_set(name: str, wanted: Wanted) -> tuple[BenchPrompt, ...]:
    """The set of that name, or the lines of a JSONL file: ``{"prompt": "text"}``, a list of ids, or a plain text.

    Raises:
        CallerMistake: neither a set nor a readable file, or a line that holds no prompt.
    """
    if name in PROMPT_SETS:
        return PROMPT_SETS[name](wanted)
    if not Path(name).is_file():
        raise CallerMistake(f"prompts '{name}': no such file, and no set; sets are {', '.join(PROMPT_SETS)}.")
    lines = [line for line in Path(name).read_text("utf-8").splitlines() if line.strip()]
    if not lines:
        raise CallerMistake(f"prompts '{name}': the file is empty; write a line of JSON for each prompt.")
    read = [_prompt_of(name, number, line) for number, line in enumerate(lines, 1)]
    return tuple(islice(cycle(read), wanted.count))


def _random(wanted: Wanted) -> tuple[BenchPrompt, ...]:
    return random_prompts(wanted.count, wanted.length, seed=wanted.seed, vocabulary=wanted.vocabulary)


def _shipped(wanted: Wanted) -> tuple[BenchPrompt, ...]:
    texts = _SHIPPED.read_text("utf-8").strip().split("\n---\n")
    Random(wanted.seed).shuffle(texts)
    return tuple(islice(cycle(texts), wanted.count))


def _shared_prefix(wanted: Wanted) -> tuple[BenchPrompt, ...]:
    shared = max(1, int(_SHARED_PART * wanted.length))
    own = max(1, wanted.length - shared)
    (prefix,) = random_prompts(1, shared, seed=f"{wanted.seed}/prefix", vocabulary=wanted.vocabulary)
    tails = random_prompts(wanted.count, own, seed=f"{wanted.seed}/tails", vocabulary=wanted.vocabulary)
    return tuple(prefix + tail for tail in tails)


def _copy_heavy(wanted: Wanted) -> tuple[BenchPrompt, ...]:
    """A passage said again and again, so that the answer is likely to go on with it."""
    passage = max(4, wanted.length // 4)
    parts = random_prompts(wanted.count, passage, seed=wanted.seed, vocabulary=wanted.vocabulary)
    return tuple((part * (wanted.length // passage + 1))[: wanted.length] for part in parts)


PROMPT_SETS: Mapping[str, Callable[[Wanted], tuple[BenchPrompt, ...]]] = {
    "random": _random,
    "shipped": _shipped,
    "shared-prefix": _shared_prefix,
    "copy-heavy": _copy_heavy,
}


def _prompt_of(name: str, number: int, line: str) -> BenchPrompt:
    try:
        said = json.loads(line)
    except ValueError as error:
        raise CallerMistake(f"prompts '{name}', line {number}: {error}; each line must be JSON.") from error
    prompt = said.get("prompt", said.get("text_input")) if isinstance(said, dict) else said
    if isinstance(prompt, str) and prompt:
        return prompt
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return tuple(prompt)
    raise CallerMistake(f'prompts \'{name}\', line {number}: no prompt; write {{"prompt": "text"}} or a list of ids.')
