"""How models write calls of tools: one form a file, named here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from openai_gateway.tool_calls.events import Parser
from openai_gateway.tool_calls.hermes import Hermes
from openai_gateway.tool_calls.llama3 import Llama3
from openai_gateway.tool_calls.mistral import Mistral

__all__ = ["FORMATS"]

# Form -> its parser for an answer, given the names of the functions that may be called.
FORMATS: Mapping[str, Callable[[Collection[str]], Parser]] = {"hermes": Hermes, "llama3": Llama3, "mistral": Mistral}
