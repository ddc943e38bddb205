"""Which version of a model a request goes to: shares for canaries, and names that hold a version."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from openai_gateway.upstreams.choice import share_of
from python_llm.errors import CallerMistake

__all__ = ["parse_weights", "pick", "split"]


def split(name: str) -> tuple[str, str]:
    """``NAME:VERSION`` as (NAME, VERSION); without a version ''."""
    model, _, version = name.partition(":")
    return model, version


def pick(weights: Mapping[str, float], ready: Collection[str], request_id: str) -> str:
    """The version for this request, '' for Triton's own choice; the same request gets the same one.

    Versions that are not ready leave their share to the others. What a request got, it keeps: the versions of a model
    continue each other's text badly.
    """
    able = {version: weight for version, weight in weights.items() if version in ready and weight > 0}
    left = share_of(request_id) * sum(able.values())
    for version, weight in able.items():
        left -= weight
        if left < 0:
            return version
    return next(iter(able), "")


def parse_weights(text: str) -> tuple[str, Mapping[str, float]]:
    """``MODEL=VERSION:SHARE,VERSION:SHARE``. Raises CallerMistake."""
    model, _, rest = text.partition("=")
    try:
        pairs = [part.split(":") for part in rest.split(",")]
        weights = {version.strip(): float(share) for version, share in pairs}
    except ValueError:
        weights = {}
    if not model or not weights or not all(version.isdigit() for version in weights):
        raise CallerMistake(f"weights '{text}': write MODEL=VERSION:SHARE,VERSION:SHARE, as in smollm2=1:95,2:5.")
    return model, weights
