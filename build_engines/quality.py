"""The quality of an engine as it serves: next-token agreement, KL divergence and perplexity against its source.

Both read the project's own text, passage by passage, each token given the ones before it: the source by
transformers in fp32, the engine by its scorer, which is the served runner with its weights, its KV precision and
its prefill chunks. Logits are compared a few rows at a time; the source's logits of one passage are the most that
is held.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from build_engines.progress import Progress
from build_engines.quality_bounds import Quality
from build_engines.remote_code import code_errors
from python_llm.artifact import Artifact
from python_llm.engine import can_score, load_scorer
from python_llm.settings import ServingConfig

__all__ = ["SERVED", "Comparison", "measure", "passages", "served_knobs", "tokenised_passages"]

SERVED = ServingConfig()  # what a model entry without knobs serves
_LONGEST_PASSAGE = 640  # tokens: with 256,000 words of vocabulary its logits take 650 MB
_ROWS = 32  # compared at a time

Floats = npt.NDArray[np.float32]


def measure(
    artifact: Artifact,
    folder: Path,
    progress: Progress,
    serving: ServingConfig = SERVED,
    *,
    trusted: bool = False,
) -> Quality | None:
    """Compare ``artifact`` with the checkpoint in ``folder``; None where no engine scores this kind of artifact.

    ``trusted``: the checkpoint's own code may run.
    """
    if not can_score(artifact.kind):
        return None
    texts = _tokenise(artifact)
    total = sum(map(len, texts))
    scorer = load_scorer(artifact, serving)
    source = _Source(folder, trusted=trusted)
    found = Comparison()
    for ids in texts:
        expected = source.logits(ids)
        begin = 0
        for rows in scorer.logits(ids):
            end = begin + len(rows)
            found.add(expected[begin:end], rows, ids[begin + 1 : end + 1])
            begin = end
        progress.advance(found.tokens, total, unit=" tokens")
    return found.quality()


def served_knobs(serving: ServingConfig = SERVED) -> dict[str, Any]:
    """The knobs on which the figures depend."""
    return {name: getattr(serving, name) for name in ("kv_cache_precision", "inference_precision", "max_num_tokens")}


def passages() -> list[str]:
    """The texts of quality_text.txt, without their titles."""
    text = resources.files("build_engines").joinpath("quality_text.txt").read_text("utf-8")
    return [passage.strip("\n") for passage in re.split(r"^=== .*\n", text, flags=re.MULTILINE)[1:]]


class Comparison:
    """Sums over the positions of a text."""

    def __init__(self) -> None:
        self.tokens = 0
        self._agreed = 0
        self._kl = 0.0
        self._predicted = 0  # positions whose next token is known
        self._loss = 0.0
        self._source_loss = 0.0

    def add(self, source: Floats, engine: Floats, next_ids: Sequence[int]) -> None:
        """Logits [n, vocabulary] of the same positions; ``next_ids`` may lack the last position's."""
        for begin in range(0, len(source), _ROWS):
            rows = slice(begin, begin + _ROWS)
            self._add(_log_softmax(source[rows]), _log_softmax(engine[rows]), next_ids[rows])

    def _add(self, source: Floats, engine: Floats, next_ids: Sequence[int]) -> None:
        self.tokens += len(source)
        self._agreed += int((source.argmax(1) == engine.argmax(1)).sum())
        self._kl += float((np.exp(source) * (source - engine)).sum(dtype=np.float64))
        known = np.arange(len(next_ids)), np.asarray(next_ids, np.int64)
        self._predicted += len(next_ids)
        self._loss -= float(engine[known].sum(dtype=np.float64))
        self._source_loss -= float(source[known].sum(dtype=np.float64))

    def quality(self) -> Quality:
        return Quality(
            tokens=self.tokens,
            agreement=round(self._agreed / self.tokens, 5),
            kl=round(self._kl / self.tokens, 6),
            perplexity=round(float(np.exp(self._loss / self._predicted)), 4),
            source_perplexity=round(float(np.exp(self._source_loss / self._predicted)), 4),
        )


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return result


def tokenised_passages(tokenizer: Path) -> list[list[int]]:
    """The passages as the served tokenizer, a tokenizer.json, gives them."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(tokenizer))
    return [loaded.encode(passage).ids for passage in passages()]


def _tokenise(artifact: Artifact) -> list[list[int]]:
    """The passages, none longer than the context."""
    longest = min(_LONGEST_PASSAGE, artifact.manifest.model.context_length)
    return [ids[:longest] for ids in tokenised_passages(artifact.path / "tokenizer.json")]


class _Source:
    """The checkpoint by transformers in fp32."""

    def __init__(self, folder: Path, *, trusted: bool) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        load: Any = AutoModelForCausalLM.from_pretrained
        with _quiet(), code_errors(folder, trusted=trusted):
            self._model = load(
                str(folder), dtype=torch.float32, local_files_only=True, trust_remote_code=trusted
            ).eval()

    def logits(self, ids: Sequence[int]) -> Floats:
        import torch

        with torch.inference_mode(), _half_the_cores(), _quiet():
            logits = self._model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]
        result: Floats = logits.numpy()
        return result


@contextmanager
def _half_the_cores() -> Iterator[None]:
    """torch's threads wait for each other: one that has no core to itself makes all of them ten times slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(max(1, before // 2))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Loading a checkpoint prints bars and advice; the caller has its own progress and errors."""
    with warnings.catch_warnings(), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        yield
