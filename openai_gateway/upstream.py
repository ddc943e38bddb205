"""The seam between the API and the servers behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from triton_llm_client import Chunk, GenerateParams, Prompt

__all__ = ["ModelCard", "Readiness", "Upstream"]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A served model, as far as the gateway knows it.

    ``versions``: version -> state of it ("READY", "LOADING", "UNAVAILABLE: why"). ``context_length``: tokens that
    prompt and output together may have; None: not known. ``tool_calls``: the form in which the model writes calls of
    tools, one of ``openai_gateway.tool_calls.FORMATS``; None: it has none, or it is not known.
    """

    name: str
    ready: bool = True
    versions: Mapping[str, str] = field(default_factory=dict)
    context_length: int | None = None
    tool_calls: str | None = None


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a request can be answered now. ``servers``: URL -> why it takes none, empty where it does."""

    ready: bool
    servers: Mapping[str, str] = field(default_factory=dict)


class Upstream(Protocol):
    """The servers behind the gateway, as one."""

    def stream(
        self, model: str, prompt: Prompt, params: GenerateParams, *, request_id: str, prefix: str = ""
    ) -> AsyncGenerator[Chunk, None]:
        """Yield the answer's chunks, as one stream whatever server they come from.

        Closing the generator early cancels the request at the generator. ``prefix``: requests of the same one are
        better sent to the same server, since their prompts begin alike.

        Raises:
            ServeError: typed as in python_llm.errors; ServerUnreachable where no server is left.
        """

    def wait_for_server(self) -> Coroutine[Any, Any, None] | None:
        """The wait for some server to be up; None where one is, or nobody may wait."""

    async def models(self) -> Sequence[ModelCard]:
        """The served models by name. Asked at each request: quick, from what is known already.

        Raises:
            Unavailable: no server has ever answered.
        """

    async def ready(self) -> Readiness:
        """Whether requests can be answered now; quick, from what is known already."""

    async def close(self) -> None:
        """End the connections; running requests are cancelled."""
