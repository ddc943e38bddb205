"""The part of a request's answer that one server gives."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from openai_gateway.upstreams.reading import Reading
from openai_gateway.upstreams.retries import ended_by_the_server, is_to_blame
from openai_gateway.upstreams.server import Server
from openai_gateway.upstreams.work import estimate
from python_llm.errors import ServeError, Unavailable
from triton_llm_client import AsyncClient, Chunk, GenerateParams, Prompt

__all__ = ["Segment"]


class Segment:
    """`chunks` once. While it runs, its work stands in the server's load, and the breaker learns how it goes."""

    def __init__(
        self, server: Server, model: str, version: str, prompt: Prompt, params: GenerateParams, request_id: str
    ) -> None:
        self._server, self._model, self._version = server, model, version
        self._prompt, self._params, self._request_id = prompt, params, request_id
        self._beams = (params.beam_width or 1) > 1

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """Raises ServeError; also where the server itself cuts the answer."""
        server = self._server
        attempt = server.breaker.attempt()
        left = estimate(self._prompt, self._params)
        server.load += left
        reading = Reading(self._ask())
        try:
            with server.read_by(reading, self._model, self._version):
                begun = False
                while (chunk := await reading.next()) is not None:
                    if ended_by_the_server(chunk.finish_reason):
                        raise Unavailable("ended_by_server", f"server '{server.name}': it cut the answer; ask again.")
                    if not begun:
                        begun = True
                        attempt.succeeded()
                    done = min(left, len(chunk.output_ids))
                    left, server.load = left - done, server.load - done
                    yield chunk
        except ServeError as error:
            if is_to_blame(error):
                attempt.failed(error)
            else:
                attempt.succeeded()  # it answered, if only to refuse
            raise
        finally:
            server.load -= left
            attempt.close()
            await reading.close()

    def _ask(self) -> AsyncGenerator[Chunk, None]:
        client = AsyncClient(model=self._model, version=self._version, transport=self._server.transport)
        return client.stream(self._prompt, self._params, request_id=self._request_id, deltas=not self._beams)
