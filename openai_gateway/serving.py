"""What the routes find at hand: the upstream, the settings, and the model that a request names."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from openai_gateway.api_settings import ApiSettings
from openai_gateway.caller import caller_of
from openai_gateway.disconnect import unless_client_leaves
from openai_gateway.errors import UnknownModel
from openai_gateway.upstream import ModelCard, Upstream

__all__ = ["model_named", "models_of", "settings_of", "upstream_of", "wait_for_server"]

# What clients of Text Generation Inference, which serves one model, call it.
_ANY_NAME = frozenset({"tgi", "dummy"})


def upstream_of(request: Request) -> Upstream:
    upstream: Upstream = request.app.state.upstream
    return upstream


def settings_of(request: Request) -> ApiSettings:
    settings: ApiSettings = request.app.state.settings
    return settings


async def models_of(request: Request) -> Sequence[ModelCard]:
    """The models that the caller may use, by name."""
    caller = caller_of(request)
    cards = await upstream_of(request).models()
    return sorted((card for card in cards if caller.may_use(card.name)), key=lambda card: card.name)


async def wait_for_server(request: Request) -> None:
    """Until some server is up, where requests may wait for one. The body must have been read."""
    wait = upstream_of(request).wait_for_server()
    if wait is not None:
        await unless_client_leaves(request, wait)


async def model_named(request: Request, name: str) -> ModelCard:
    """Raises UnknownModel, which names the known."""
    cards = await models_of(request)
    for card in cards:
        if card.name == name:
            return card
    if name in _ANY_NAME and len(cards) == 1:
        return cards[0]
    raise UnknownModel(name, [card.name for card in cards])
