"""Whether loading a block beats computing it again: running means of what each took lately."""

from __future__ import annotations

__all__ = ["LoadCosts", "Mean"]

_LEAST_PREFILL = 16  # prompt tokens of a step that says anything about prefill
_GUESSED_PREFILL_SECONDS = 0.002  # a token, before the first was measured


class Mean:
    """A running mean that follows changes; it weighs each measurement with ``weight``."""

    def __init__(self, weight: float = 0.25) -> None:
        self._weight = weight
        self.value: float | None = None

    def learn(self, measured: float) -> None:
        self.value = measured if self.value is None else self.value + self._weight * (measured - self.value)

    def doubt(self) -> None:
        """It was too dear to be tried; it may have become cheaper, and after some refusals it is tried again."""
        if self.value is not None:
            self.value *= 0.9


class LoadCosts:
    """Seconds: ``prefill`` a token, ``copy`` a block from host memory into the cache, ``read`` a block from disk."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self.prefill = Mean()
        self.copy = Mean()
        self.read = Mean()

    def learn_step(self, prompt_tokens: int, tokens: int, seconds: float) -> None:
        """A step of ``tokens``, of which so many were a prompt's; decoding tokens are counted as dear as those."""
        if prompt_tokens >= _LEAST_PREFILL:
            self.prefill.learn(seconds / tokens)

    def compute_seconds(self, blocks: int) -> float:
        """To compute so many blocks."""
        token = _GUESSED_PREFILL_SECONDS if self.prefill.value is None else self.prefill.value
        return blocks * self._block_size * token

    def copy_pays(self) -> bool:
        """Whether a block in host memory is worth loading. What was never measured is tried."""
        return self._pays(self.copy)

    def read_pays(self) -> bool:
        """Whether a block on disk is worth reading and loading."""
        return self._pays(self.read, self.copy.value or 0.0)

    def _pays(self, mean: Mean, more: float = 0.0) -> bool:
        if mean.value is None or mean.value + more < self.compute_seconds(1):
            return True
        mean.doubt()
        return False
