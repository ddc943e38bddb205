"""The artifact's own engine, in this process, through the engine protocol."""

from __future__ import annotations

import asyncio
from itertools import count

from python_llm import engine as engines
from python_llm.errors import CallerMistake, EngineFailure, ServeError
from python_llm.settings import ServingConfig
from triton_llm_client.bench.load import Answer, BenchPrompt, Load, Outcome, run_load
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.timeline import Timeline

__all__ = ["EngineSubject", "open_engine"]


def open_engine(setting: Setting) -> EngineSubject:
    return EngineSubject(engines.load(setting.artifact))


class EngineSubject:
    """Drives an Engine by submit and sink; nothing of ours runs between two tokens but a counter."""

    name = "engine"

    def __init__(self, engine: engines.Engine) -> None:
        self.flags = f"{type(engine).__name__}, {ServingConfig()}"
        self._engine = engine
        self._loop = asyncio.new_event_loop()
        self._ids = count()

    def run(self, load: Load) -> Outcome:
        return self._loop.run_until_complete(run_load(self._send, load))

    def close(self) -> None:
        self._engine.close()
        self._loop.close()

    async def _send(self, prompt: BenchPrompt, output_tokens: int) -> Answer:
        if isinstance(prompt, str):
            raise CallerMistake("engine: it takes token ids, not text; measure text through a server.")
        sink = _Sink(self._loop)
        self._engine.submit(engines.GenerateRequest(f"bench-{next(self._ids)}", prompt, output_tokens), sink)
        return await sink.answer


class _Sink:
    """Notes times on the engine's thread and wakes the loop once, at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[Answer] = loop.create_future()
        self._loop = loop
        self._line = Timeline()

    def __call__(self, event: engines.Event) -> None:
        if isinstance(event, engines.Tokens):
            self._line.saw(len(event.ids))
        elif isinstance(event, engines.Failed):
            self._loop.call_soon_threadsafe(self._fail, event.error)
        elif isinstance(event, engines.Finished) and event.reason != "length":
            self._loop.call_soon_threadsafe(self._fail, EngineFailure("ended_early", f"request: {event.reason}."))
        elif isinstance(event, engines.Finished):
            done = self._line.answer(prompt_tokens=event.usage.prompt_tokens)
            self._loop.call_soon_threadsafe(self._done, done)

    def _done(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def _fail(self, error: ServeError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
