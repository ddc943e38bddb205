"""The models in the repositories of all servers, loaded and unloaded on each of them.

The roles of a model are loaded in the order in which they ask each other, and unloaded against it, as ``triton-llm repo
--url`` does. Triton answers a load when it is done, an unload at once: the model's running requests finish first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from openai_gateway.upstreams.pool import Pool
from openai_gateway.upstreams.server import Server
from openai_gateway.upstreams.triton_rpc import IndexRow
from python_llm.contract import generator_model, role_model
from python_llm.errors import EngineFailure, InvalidRequest, NotFound, ServeError, Unavailable

__all__ = ["Fleet", "FleetModel"]

_log = logging.getLogger(__name__)
_FIRST_ROLES = ("tokenizer", "generator", "detokenizer", "unary")  # then the ensemble, which asks them
_ASK_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_GENERATOR = generator_model("")
_KINDS: Sequence[type[ServeError]] = (InvalidRequest, NotFound, Unavailable)


@dataclass(frozen=True, slots=True)
class FleetModel:
    """``rows``: server -> what its index says of the model's generator, a row a version."""

    name: str
    rows: Mapping[str, Sequence[IndexRow]]

    @property
    def states(self) -> Mapping[str, str]:
        """Server -> the best state of any version there; UNAVAILABLE too where it was never loaded."""
        return {server: _state(rows) for server, rows in self.rows.items()}


class Fleet:
    """``load_seconds``: for one of a model's roles to load; ``unload_seconds``: for its running requests to finish."""

    def __init__(self, pool: Pool, *, load_seconds: float = 300.0, unload_seconds: float = 30.0) -> None:
        self._pool = pool
        self._load_seconds, self._unload_seconds = load_seconds, unload_seconds
        self._changing = asyncio.Lock()

    async def models(self) -> Sequence[FleetModel]:
        """By name, those that were never loaded too.

        Raises:
            Unavailable: no server tells its index.
        """
        indices = await self._indices()
        told = []
        for name in sorted(_served({row.name for rows in indices.values() for row in rows})):
            generator = generator_model(name)
            rows = {server.name: [row for row in rows if row.name == generator] for server, rows in indices.items()}
            told.append(FleetModel(name, {server: found for server, found in rows.items() if found}))
        return told

    async def load(self, name: str) -> FleetModel:
        """On every server whose repository has it; on a server where a role fails, what was new goes again.

        Raises:
            NotFound: no server has it.
            ServeError: some server failed; the text names it.
        """
        return await self._change(name, self._load)

    async def unload(self, name: str) -> FleetModel:
        """From every server. What still runs after ``unload_seconds`` is left to finish: its state says UNLOADING.

        Raises:
            NotFound: no server has it.
            ServeError: some server failed; the text names it.
        """
        return await self._change(name, self._unload)

    async def _change(self, name: str, action: Callable[[Server, Mapping[str, str]], Awaitable[None]]) -> FleetModel:
        async with self._changing:
            indices = await self._indices()
            states = {server: _states_of(name, rows) for server, rows in indices.items()}
            work = {server: action(server, found) for server, found in states.items() if generator_model(name) in found}
            if not work:
                known = sorted(_served({row.name for rows in indices.values() for row in rows}))
                raise NotFound("unknown_model", f"model '{name[:80]}': in no repository; known: {', '.join(known)}.")
            results = await asyncio.gather(*work.values(), return_exceptions=True)
            await asyncio.gather(*(self._pool.look_again(server) for server in work))
        _raise_first(dict(zip((server.name for server in work), results, strict=True)))
        return next(model for model in await self.models() if model.name == name)

    async def _load(self, server: Server, states: Mapping[str, str]) -> None:
        fresh: list[str] = []
        try:
            for model, state in states.items():
                await server.rpc.load(model, self._load_seconds)
                if state != "READY":
                    fresh.append(model)
        except ServeError:
            for model in reversed(fresh):
                await server.rpc.unload(model, _ASK_SECONDS)
            raise
        _log.info("server '%s': loaded %s", server.name, ", ".join(states))

    async def _unload(self, server: Server, states: Mapping[str, str]) -> None:
        there = [model for model, state in states.items() if state != "UNAVAILABLE"]
        for model in reversed(there):
            await server.rpc.unload(model, _ASK_SECONDS)
        deadline = asyncio.get_running_loop().time() + self._unload_seconds
        while asyncio.get_running_loop().time() < deadline:
            rows = await server.rpc.repository(_ASK_SECONDS)
            if rows is not None and all(_state([r for r in rows if r.name == m]) == "UNAVAILABLE" for m in there):
                break
            await asyncio.sleep(_LOOK_SECONDS)
        _log.info("server '%s': unloaded %s", server.name, ", ".join(there) or "nothing")

    async def _indices(self) -> Mapping[Server, Sequence[IndexRow]]:
        servers = self._pool.servers
        told = await asyncio.gather(*(server.rpc.repository(_ASK_SECONDS) for server in servers))
        found = {server: rows for server, rows in zip(servers, told, strict=True) if rows is not None}
        if not found:
            names = ", ".join(server.name for server in servers) or "none"
            raise Unavailable(
                "no_index",
                f"servers: no repository index of theirs can be read ({names}); they must be up, and where they listen "
                "beyond loopback the gateway needs their admin key.",
            )
        return found


def _served(models: Iterable[str]) -> set[str]:
    return {model.removesuffix(_GENERATOR) for model in models if model.endswith(_GENERATOR)}


def _states_of(name: str, rows: Sequence[IndexRow]) -> Mapping[str, str]:
    """Triton's models of the served model, in the order of loading."""
    there = {row.name for row in rows}
    models = (*(role_model(name, role) for role in _FIRST_ROLES), name)
    return {model: _state([row for row in rows if row.name == model]) for model in models if model in there}


def _state(rows: Sequence[IndexRow]) -> str:
    states = {row.state for row in rows}
    return next((state for state in ("READY", "LOADING", "UNLOADING") if state in states), "UNAVAILABLE")


def _raise_first(results: Mapping[str, object]) -> None:
    for server, result in results.items():
        if isinstance(result, ServeError):
            kind = next((kind for kind in _KINDS if isinstance(result, kind)), EngineFailure)
            raise kind(result.reason, f"server '{server}': {result.text}") from result
        if isinstance(result, BaseException):
            raise result
