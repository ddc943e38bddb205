"""What a KV store on disk is worth: the first token after a restart, of a prompt whose beginning is known or not.

Each round takes a fresh prefix and a fresh folder. A process starts an engine, asks a prompt that nobody knows, and
ends; a second process starts one over the same folder and asks another prompt with the same beginning. Both are the
first requests of their engines.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from python_llm import engine as engines
from python_llm.settings import ServingConfig
from triton_llm_client.bench.isolated import IsolatedSubject
from triton_llm_client.bench.load import Load, PromptIds
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.statistics import paired_ratio
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.subjects.engine import EngineSubject
from triton_llm_client.bench.targets import Figure

__all__ = ["measure"]

_PREFIX, _TAIL = 512, 32
_DISK_BYTES = 1 << 30


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    vocabulary = setting.vocabulary()
    cold: list[float] = []
    restarted: list[float] = []
    for number in range(rounds):
        (prefix,) = random_prompts(1, _PREFIX, seed=f"prefix-{number}", vocabulary=vocabulary)
        tails = random_prompts(2, _TAIL, seed=f"tails-{number}", vocabulary=vocabulary)
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_first_token(setting.artifact, folder, prefix + tails[0]))
            restarted.append(_first_token(setting.artifact, folder, prefix + tails[1]))
        say(f"TTFT {restarted[-1]:.3f} s after a restart, {cold[-1]:.3f} s cold")
    ratio = paired_ratio(restarted, cold)
    return Figure("TTFT with a known 512-token prefix after a restart / cold", ratio, 0.25, at_most=True)


def _first_token(artifact: Path, folder: str, prompt: PromptIds) -> float:
    """Seconds to the first token of an engine's first request; what it computed is in ``folder`` afterwards."""
    subject = IsolatedSubject(_open, artifact, folder)
    try:
        (answer,) = subject.run(Load((prompt,), in_flight=1, output_tokens=2)).answers
    finally:
        subject.close()
    return answer.ttft_seconds


def _open(artifact: Path, folder: str) -> EngineSubject:
    return EngineSubject(engines.load(artifact, ServingConfig(kv_disk_bytes=_DISK_BYTES, kv_disk_path=folder)))
