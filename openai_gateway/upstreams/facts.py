"""What one server says about the models it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from openai_gateway.upstreams.health import Health
from openai_gateway.upstreams.triton_rpc import IndexRow, TritonRpc
from python_llm.contract import generator_model

__all__ = ["ModelFacts", "read_facts"]

_GENERATOR = generator_model("")
_CONTEXT, _TOOL_CALLS = "context_length", "tool_calls"  # parameters of a generator's config.pbtxt


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """``versions``: version -> state. See ModelCard for the rest."""

    versions: Mapping[str, str] = field(default_factory=dict)
    context_length: int | None = None
    tool_calls: str | None = None


async def read_facts(rpc: TritonRpc, health: Health, timeout: float) -> Mapping[str, ModelFacts]:
    """Served model -> its facts, from Triton's repository index; where that is closed, from what the launcher says."""
    rows = await rpc.index(timeout)
    if rows is None:
        names = [model for model in health.models if model.endswith(_GENERATOR)]
        ready = await asyncio.gather(*(rpc.versions(model, timeout) for model in names))
        by_model = {name: dict.fromkeys(found, "READY") for name, found in zip(names, ready, strict=True)}
    else:
        by_model = _versions(row for row in rows if row.name.endswith(_GENERATOR))
    told = await asyncio.gather(*(rpc.parameters(model, timeout) for model in by_model))
    pairs = zip(by_model.items(), told, strict=True)
    return {model.removesuffix(_GENERATOR): _facts(versions, words) for (model, versions), words in pairs}


def _versions(rows: Iterable[IndexRow]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        state = f"{row.state}: {row.reason}" if row.reason else row.state
        found.setdefault(row.name, {})[row.version] = state
    return found


def _facts(versions: Mapping[str, str], parameters: Mapping[str, str]) -> ModelFacts:
    length = parameters.get(_CONTEXT, "")
    return ModelFacts(versions, int(length) if length.isdigit() else None, parameters.get(_TOOL_CALLS) or None)
