"""The optimisation profile: the least, the usual and the largest batch that a plan takes, from the build's limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from build_engines.builders._onnx.export import INPUTS
from build_engines.errors import SpecError
from build_engines.spec import EngineSpec
from python_llm.artifact import Limits

__all__ = ["Shapes", "shapes_of"]

_ROWS, _LENGTH = 16, 2048  # where the spec names no limit
_USUAL_SHARE = 4  # of the largest: kernels are chosen for a quarter of it


@dataclass(frozen=True)
class Shapes:
    """(rows, tokens) of each."""

    least: tuple[int, int]
    usual: tuple[int, int]
    largest: tuple[int, int]

    def profile(self) -> Any:
        """As Polygraphy takes it: ids and mask have one shape."""
        from polygraphy.backend.trt import Profile

        found = Profile()
        for name in INPUTS:
            found.add(name, self.least, self.usual, self.largest)
        return found

    def limits(self) -> Limits:
        rows, length = self.largest
        return Limits(max_batch_size=rows, max_input_len=length, max_seq_len=length, max_num_tokens=rows * length)

    def takes(self, rows: int, length: int) -> bool:
        return rows <= self.largest[0] and length <= self.largest[1]


def shapes_of(spec: EngineSpec, context: int) -> Shapes:
    """The profile of a build; a scorer's row has one length, which max_seq_len or max_input_len bounds.

    Raises:
        SpecError: a limit beyond the model's context, or limits that say nothing here.
    """
    if spec.max_num_tokens:
        raise SpecError(
            f"max_num_tokens {spec.max_num_tokens}: a plan is built for rows and their length; set max_batch_size and "
            "max_seq_len."
        )
    if spec.max_seq_len and spec.max_input_len and spec.max_seq_len != spec.max_input_len:
        raise SpecError(
            f"max_input_len {spec.max_input_len}: a scorer's text is its whole sequence, so it must equal max_seq_len "
            f"{spec.max_seq_len}; set one of them."
        )
    rows = spec.max_batch_size or _ROWS
    length = spec.max_seq_len or spec.max_input_len or min(context, _LENGTH)
    if length > context:
        raise SpecError(f"max_seq_len {length}: the model's context is {context}; lower it.")
    usual = max(1, rows // _USUAL_SHARE), max(1, length // _USUAL_SHARE)
    return Shapes((1, 1), usual, (rows, length))
