"""A seed for every request: one that has none could not go on elsewhere with the same sampling noise."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace

from triton_llm_client import GenerateParams

__all__ = ["seeded"]

_BITS = 53  # what a JavaScript client reads exactly
_OTHER_NAMES = ("random_seed", "sampling_param_seed")


def seeded(params: GenerateParams) -> GenerateParams:
    """The request with a seed: its own, by whatever name it has it, or one drawn here."""
    if params.seed is not None or any(name in params.more for name in _OTHER_NAMES) or _in_the_object(params):
        return params
    return replace(params, seed=secrets.randbits(_BITS))


def _in_the_object(params: GenerateParams) -> bool:
    """vLLM's object may hold one; what it holds beside is the generator's to read."""
    found = params.sampling_parameters
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return True  # the generator refuses it by name
    return found is not None and "seed" in found
