"""Prompt lookup on text that repeats what it has read: a listing, given three times, goes on a fourth time."""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import Tokenizer

from python_llm.settings import ServingConfig
from triton_llm_client.bench.scenarios.asking import ask, opened
from triton_llm_client.bench.statistics import paired_ratio
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.targets import Figure

__all__ = ["measure"]

_ANSWER = 100
_LISTING = '''def parse(line):
    """Split a line into key and value."""
    key, _, value = line.partition("=")
    key = key.strip()
    value = value.strip()
    if not key:
        raise ValueError("no key in line: " + line)
    return key, value


def read(path):
    """Read all pairs of a file."""
    pairs = {}
    for line in open(path):
        if line.startswith("#"):
            continue
        key, value = parse(line)
        pairs[key] = value
    return pairs


'''


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    text = _LISTING * 3 + _LISTING[:40]
    prompt = tuple(Tokenizer.from_file(str(setting.artifact / "tokenizer.json")).encode(text).ids)
    plain: list[float] = []
    guessed: list[float] = []
    with opened(setting) as without, opened(setting, ServingConfig(speculation="prompt_lookup")) as lookup:
        for number in range(rounds + 1):
            slow, fast = ask(without, [prompt], _ANSWER)[0], ask(lookup, [prompt], _ANSWER)[0]
            if number:  # the first round warms up
                plain.append(slow.decode)
                guessed.append(fast.decode)
        drafts = lookup.stats()
        say(f"guesses kept: {drafts.drafts_accepted} of {drafts.drafts_proposed}; same text: {slow.ids == fast.ids}")
    return Figure("decode time of copies without prompt lookup / with it", paired_ratio(plain, guessed), 2.5)
