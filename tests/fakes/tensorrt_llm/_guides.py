"""Guided decoding: the grammar compiler of the project's own engine behind the library's parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from python_llm.engine import Guide

__all__ = ["Guides"]


class Guides:
    """``backend`` None: there is no guided decoder, and asking for one is an error."""

    def __init__(self, backend: str | None, tokenizer: str, vocab_size: int) -> None:
        self._compiler: Any = None
        if backend:
            from python_llm.engines.paged.grammar import GrammarCompiler

            self._compiler = GrammarCompiler(Path(tokenizer) / "tokenizer.json", vocab_size, ())

    def matcher(self, params: Any) -> _Matcher | None:
        guided = params.guided_decoding
        if guided is None:
            return None
        if self._compiler is None:
            raise ValueError("guided_decoding: no guided_decoding_backend was given to LLM")
        return _Matcher(self._compiler.compile(_guide(guided), {params.end_id}))


class _Matcher:
    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def accept(self, token: int) -> None:
        self._matcher.accept(token)

    def only_allowed(self, logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        bits = np.unpackbits(self._matcher.mask().view(np.uint8), bitorder="little")[: len(logits)]
        return np.where(bits.astype(bool), logits, -np.inf)


def _guide(guided: Any) -> Guide:
    given = [name for name in ("json", "regex", "grammar", "structural_tag") if getattr(guided, name) is not None]
    if len(given) + bool(guided.json_object) != 1:
        raise ValueError("guided_decoding: exactly one guide may be set")
    if guided.json_object:
        return Guide("json")
    value = getattr(guided, given[0])
    text = value if isinstance(value, str) else json.dumps(value)
    if given[0] == "json":
        return Guide("json_schema", text)
    return Guide("ebnf_grammar" if given[0] == "grammar" else given[0], text)  # type: ignore[arg-type]
