"""A request of ours as requests of the library."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from python_llm.engine import GenerateRequest, Sink
from python_llm.engines.tensorrt.progress import Progress

__all__ = ["Part", "Work", "make_parts"]


@dataclass
class Part:
    """One request of the library: a sequence, or all beams of a request."""

    sequences: list[Progress]
    result: Any = None

    @property
    def ended(self) -> bool:
        return all(sequence.ended for sequence in self.sequences)

    def abort(self) -> None:
        if self.result is not None:
            with contextlib.suppress(Exception):  # of a request that is over, or of a dead executor
                self.result.abort()


@dataclass
class Work:
    """One request of ours. ``failed``: its Failed was sent, and nothing follows."""

    request: GenerateRequest
    sink: Sink
    parts: list[Part] = field(default_factory=list)
    prompt_told: bool = False
    failed: bool = False

    @property
    def ended(self) -> bool:
        return self.failed or all(part.ended for part in self.parts)


def make_parts(request: GenerateRequest, sink: Sink) -> list[Part]:
    indices = range(request.first_index, request.first_index + request.sequence_count)
    sequences = [Progress(request, index, sink) for index in indices]
    return [Part(sequences)] if request.beam is not None else [Part([each]) for each in sequences]
