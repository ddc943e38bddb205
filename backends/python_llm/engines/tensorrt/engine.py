"""The engine: an event loop on a thread of its own that hands requests to the library and follows their outputs."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

from python_llm.engine import Capabilities, EngineLimits, EngineStats, Failed, FinishReason, GenerateRequest, Sink
from python_llm.engines.tensorrt import refusals
from python_llm.engines.tensorrt.library import Library
from python_llm.engines.tensorrt.options import Options
from python_llm.engines.tensorrt.sampling import library_priority, sampling_params
from python_llm.engines.tensorrt.statistics import Statistics
from python_llm.engines.tensorrt.work import Part, Work, make_parts
from python_llm.errors import ServeError

__all__ = ["TensorRtEngine"]

_STATISTICS_SECONDS = 1.0  # one wait for the next record
_log = logging.getLogger(__name__)


class TensorRtEngine:
    """See ``python_llm.engine.Engine`` for the contract; everything but its methods runs on the loop's thread."""

    def __init__(self, library: Library, options: Options, capabilities: Capabilities, limits: EngineLimits) -> None:
        """Loads the model: minutes. What the library raises is raised."""
        self.capabilities = capabilities
        self.limits = limits
        self._library = library
        self._options = options
        self._llm = library.llm(**options.arguments(library))
        self._adapters = options.adapters.requests(library)
        self._statistics = Statistics()
        self._steps = 0
        self._wake = threading.Condition()  # guards the three below
        self._works: dict[str, Work] = {}
        self._death: BaseException | None = None
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="tensorrt-llm-engine", daemon=True)
        self._thread.start()

    def submit(self, request: GenerateRequest, sink: Sink) -> None:
        error = refusals.refusal(request, self._options, self._library)
        with self._wake:
            if self._closed:
                error = refusals.closed()
            elif self._death is not None:
                error = refusals.broken(self._death)
            if error is None:
                work = self._works[request.request_id] = Work(request, sink)
                work.parts = make_parts(request, sink)
                self._loop.call_soon_threadsafe(self._begin, work)
                return
        sink(Failed(error))

    def cancel(self, request_id: str, index: int | None = None) -> None:
        with self._wake:
            if request_id in self._works:
                self._loop.call_soon_threadsafe(self._end_early, request_id, index)

    def stats(self) -> EngineStats:
        """Every output and every iteration's record is a step: either shows that the executor lives."""
        unfinished = sum(len(work.parts) for work in list(self._works.values()))
        running = min(unfinished, self.limits.max_running)
        steps = self._steps + self._statistics.iterations
        return EngineStats(running, unfinished - running, steps, **self._statistics.figures())

    def prefix_hashes(self) -> tuple[bytes, ...]:
        """The library hashes its blocks in a way of its own."""
        return ()

    def healthy(self) -> bool:
        return self._thread.is_alive() and self._death is None and self._library.is_alive(self._llm)

    def drain(self, deadline: float) -> None:
        with self._wake:
            self._wake.wait_for(lambda: not self._works, max(0.0, deadline - time.monotonic()))
            left = list(self._works)
        for request_id in left:
            self.cancel(request_id)
        with self._wake:
            self._wake.wait_for(lambda: not self._works or not self._thread.is_alive())

    def close(self) -> None:
        with self._wake:
            if self._closed:
                return
            self._closed = True
        self.drain(0.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._llm.shutdown()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._follow(self._collect_statistics())
            self._loop.run_forever()
        finally:
            for work in list(self._works.values()):
                self._fail(work, refusals.closed())
            for task in self._tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _follow(self, coroutine: Any) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self, work: Work) -> None:
        for part in work.parts:
            if not (work.failed or part.ended):
                self._follow(self._run_part(work, part))

    async def _run_part(self, work: Work, part: Part) -> None:
        if part.ended or work.failed:
            return  # before the library had it
        try:
            part.result = self._hand_over(work.request, part)
            async for output in part.result:
                self._steps += 1
                self._take(work, part, output)
            if not (part.ended or work.failed):
                raise RuntimeError("a request ended without saying why")
        except Exception as error:
            self._fault(work, error)

    def _hand_over(self, request: GenerateRequest, part: Part) -> Any:
        params = sampling_params(request, part.sequences[0].index, self._library, self.limits.vocab_size)
        more: dict[str, Any] = {"lora_request": self._adapters[request.adapter]} if request.adapter else {}
        if request.priority:
            more["priority"] = library_priority(request.priority)
        if request.cache_salt:
            more["cache_salt"] = request.cache_salt
        ids = [*request.prompt_ids, *request.resume_ids]
        return self._llm.generate_async(ids, params, streaming=request.beam is None, **more)

    def _take(self, work: Work, part: Part, output: Any) -> None:
        if work.failed or work.ended:
            return
        if not work.prompt_told:
            work.prompt_told = True
            part.sequences[0].tell_prompt(output.outputs[0])
        for sequence, each in zip(part.sequences, output.outputs, strict=True):
            sequence.take(each)
        self._look_for_the_end(work)

    def _fault(self, work: Work, error: Exception) -> None:
        """One request's own, or the executor's: then every request is lost, and the launcher starts anew."""
        if isinstance(error, ServeError) or self._library.is_of_the_request(error):
            self._fail(work, refusals.of_the_library(work.request.request_id, error))
            return
        _log.error("TensorRT-LLM's executor failed", exc_info=error)
        with self._wake:
            self._death = self._death or error
        for each in list(self._works.values()):
            self._fail(each, refusals.broken(error))

    def _fail(self, work: Work, error: ServeError) -> None:
        if not work.ended:
            work.failed = True
            work.sink(Failed(error))
        for part in work.parts:
            part.abort()
        self._look_for_the_end(work)

    def _end_early(self, request_id: str, index: int | None) -> None:
        """The caller's end comes at once; the library is told, and what it still says is dropped."""
        work = self._works.get(request_id)
        for part in work.parts if work else ():
            if index is None or [sequence.index for sequence in part.sequences] == [index]:
                self._finish(part, "cancelled")
                part.abort()
        if work:
            self._look_for_the_end(work)

    @staticmethod
    def _finish(part: Part, reason: FinishReason) -> None:
        for sequence in part.sequences:
            sequence.end(reason)

    def _look_for_the_end(self, work: Work) -> None:
        if work.ended:
            with self._wake:
                if self._works.get(work.request.request_id) is work:
                    del self._works[work.request.request_id]
                self._wake.notify_all()

    async def _collect_statistics(self) -> None:
        """A version or a build without statistics says nothing, and is asked again."""
        while True:
            begun = self._loop.time()
            try:
                async for record in self._llm.get_stats_async(timeout=_STATISTICS_SECONDS):
                    self._statistics.take(record)
            except Exception:
                _log.exception("TensorRT-LLM's statistics cannot be read; blocks are reported as 0")
                return
            await asyncio.sleep(max(0.0, begun + _STATISTICS_SECONDS - self._loop.time()))
