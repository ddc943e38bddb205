"""The served models."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from openai_gateway.serving import model_named, models_of
from openai_gateway.upstream import ModelCard

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["models"])
_STARTED = int(time.time())


@router.get("/models")
async def list_models(request: Request) -> dict[str, Any]:
    """All models that the caller may use."""
    return {"object": "list", "data": [_entry(card) for card in await models_of(request)]}


@router.get("/models/{model}", responses={404: {"description": "No such model; the known are named."}})
async def one_model(model: str, request: Request) -> dict[str, Any]:
    """One model."""
    return _entry(await model_named(request, model))


def _entry(card: ModelCard) -> dict[str, Any]:
    """OpenAI's fields, and what is known beside; ``created`` is when this gateway began."""
    return {
        "id": card.name,
        "object": "model",
        "created": _STARTED,
        "owned_by": "triton-llm",
        "ready": card.ready,
        "versions": dict(card.versions),
        "max_model_len": card.context_length,
        "tool_calls": card.tool_calls,
    }
