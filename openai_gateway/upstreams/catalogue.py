"""The models of all servers as one list."""

from __future__ import annotations

from collections.abc import Iterable

from openai_gateway.upstream import ModelCard
from openai_gateway.upstreams.facts import ModelFacts
from openai_gateway.upstreams.server import Server

__all__ = ["model_cards"]


def model_cards(servers: Iterable[Server]) -> list[ModelCard]:
    """By name. A model with several versions that are ready can also be asked for as ``NAME:VERSION``."""
    told: dict[str, list[tuple[Server, ModelFacts]]] = {}
    for server in servers:
        for name, facts in server.models.items():
            told.setdefault(name, []).append((server, facts))
    cards = []
    for name, found in sorted(told.items()):
        whole = _card(name, found)
        cards.append(whole)
        ready = sorted(version for version, state in whole.versions.items() if state == "READY")
        if len(ready) > 1:
            cards += [_card(name, found, version) for version in ready]
    return cards


def _card(name: str, told: list[tuple[Server, ModelFacts]], version: str = "") -> ModelCard:
    """Of several servers' words the best state, and the shortest context: a request may come to any of them."""
    states: dict[str, str] = {}
    for _, facts in told:
        for number, state in facts.versions.items():
            if number not in states or state == "READY":
                states[number] = state
    lengths = [facts.context_length for _, facts in told if facts.context_length]
    forms = {facts.tool_calls for _, facts in told}
    return ModelCard(
        name=f"{name}:{version}" if version else name,
        ready=any(not server.leaving and server.serves(name, version) for server, _ in told),
        versions={version: states[version]} if version else states,
        context_length=min(lengths, default=None),
        tool_calls=forms.pop() if len(forms) == 1 else None,
    )
