"""Runs planned requests, a fixed number in flight, and keeps how each of them ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
from tritonclient.grpc import service_pb2_grpc

from tests.soak.plan import Plan
from tests.soak.wire import Ending, request_message, stop_message

__all__ = ["Load", "run_load"]

HANG_SECONDS = 600.0  # only catches hangs
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),  # a server that is restarted is found again at once
]


def run_load(
    url: str, name: str, plans: Iterable[Plan], *, in_flight: int, on_end: Callable[[Ending], object] = lambda end: None
) -> list[Ending]:
    """Every plan once; ``on_end`` hears of each as it ends. Raises TimeoutError for a request that never ends."""

    async def run() -> list[Ending]:
        async with Load.connect(url, name) as load:
            return await load.run(plans, in_flight, on_end)

    return asyncio.run(run())


class Load:
    """A connection to the served model ``name``."""

    def __init__(self, channel: grpc.aio.Channel, name: str) -> None:
        self._service = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        self._name = name

    @staticmethod
    @asynccontextmanager
    async def connect(url: str, name: str) -> AsyncIterator[Load]:
        async with grpc.aio.insecure_channel(url, options=_OPTIONS) as channel:
            yield Load(channel, name)

    async def run(self, plans: Iterable[Plan], in_flight: int, on_end: Callable[[Ending], object]) -> list[Ending]:
        waiting, endings = iter(plans), []

        async def worker() -> None:
            for plan in waiting:
                ending = await self.one(plan)
                endings.append(ending)
                on_end(ending)

        await asyncio.gather(*(worker() for _ in range(in_flight)))
        return endings

    async def one(self, plan: Plan) -> Ending:
        """Send it, and see it to its end; a connection that breaks is an end with an error."""
        ending = Ending(plan)
        read = self._read_unary if plan.route == "unary" else self._read_stream
        leaving = asyncio.Event()
        async with asyncio.timeout(HANG_SECONDS):
            reading = asyncio.create_task(read(ending, leaving))
            if plan.leave:
                await self._leave(ending, reading, leaving)
            with suppress(asyncio.CancelledError):
                await reading
        return ending

    async def _leave(self, ending: Ending, reading: asyncio.Task[None], leaving: asyncio.Event) -> None:
        """At its moment, unless the request ended before."""
        plan = ending.plan
        moment = asyncio.create_task(leaving.wait())
        patience = None if plan.streams else plan.leave_after
        await asyncio.wait({reading, moment}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        moment.cancel()
        if reading.done():
            return
        if plan.leave == "cancel":
            ending.left = True
            reading.cancel()
        if plan.leave == "stop" or plan.route == "ensemble":  # whose steps Triton does not tell of a client that left
            await self._stop(plan.request_id)

    async def _stop(self, request_id: str) -> None:
        """Found, or over already: either is well."""
        with suppress(grpc.aio.AioRpcError):
            async for _ in self._answers(stop_message(self._name, request_id)):
                pass

    async def _read_stream(self, ending: Ending, leaving: asyncio.Event) -> None:
        if ending.plan.leave_after == 0:
            leaving.set()
        try:
            async for answer in self._answers(request_message(self._name, ending.plan)):
                response = answer.infer_response
                final = bool(response.parameters["triton_final_response"].bool_param)
                ending.take(response, final=final, error=answer.error_message)
                if ending.chunks >= ending.plan.leave_after:
                    leaving.set()
        except grpc.aio.AioRpcError as error:
            _break(ending, error)

    async def _answers(self, request: Any) -> AsyncIterator[Any]:
        """One stream for the one request; it is cancelled with the task that reads it."""
        call = self._service.ModelStreamInfer()
        try:
            await call.write(request)
            await call.done_writing()
            async for answer in call:
                yield answer
        finally:
            call.cancel()  # a stream that has ended does not mind

    async def _read_unary(self, ending: Ending, leaving: asyncio.Event) -> None:
        try:
            response = await self._service.ModelInfer(request_message(self._name, ending.plan))
            ending.take(response, final=True, error="")
        except grpc.aio.AioRpcError as error:
            _break(ending, error)


def _break(ending: Ending, error: Any) -> None:
    """What ended the call: a refusal, or the connection's end, which takes nothing from an answer that is complete."""
    if not ending.left and not ending.ends:
        ending.errors.append(f"{error.code().name}: {error.details()}")
