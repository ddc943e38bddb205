"""The generator: stands before an engine, and never loses a request.

Threads: callers submit; two admission workers tokenise; the engine's thread puts events on a queue and returns
at once; the delivery thread turns them into text and responses; the watcher ends requests whose caller left or
whose deadline passed. An exception anywhere fails the requests it touched.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import count
from typing import Any

from python_llm import refusals
from python_llm.admission import Admission
from python_llm.delivery import Delivery
from python_llm.engine import Engine, Event
from python_llm.errors import EngineFailure, NotFound, ServeError
from python_llm.prefix_hash import PREFIX_HASH
from python_llm.recorder import Recorder, Unrecorded
from python_llm.service_rate import ServiceRate
from python_llm.session import Reply, Session
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer
from python_llm.trace import Trace, TraceRing

__all__ = ["Generator"]

_WATCH_SECONDS = 0.05  # how late a deadline may be noticed
_CANCEL_CHECK_SECONDS = 0.25  # each check costs Triton and the stub about 75 us of CPU
_log = logging.getLogger(__name__)


class Generator:
    """Serves one engine. ``submit`` may be called from any thread."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        serving: ServingConfig,
        admission: Admission,
        recorder: Recorder | None = None,
    ) -> None:
        """``recorder`` counts all requests but probes."""
        self._recorders = {False: recorder or Unrecorded(), True: Unrecorded()}  # by: is it a probe
        self._engine = engine
        self._tokenizer = tokenizer
        self._serving = serving
        self._admission = admission
        self._numbers = count(1)
        self._lock = threading.Lock()  # guards the three below, which go by the callers' ids
        self._sessions: dict[str, Session] = {}
        self._admitting: Counter[str] = Counter()
        self._stopped_early: set[str] = set()
        self._rate = ServiceRate()
        self.traces = TraceRing()  # probes are not among them
        self._draining = False
        self._closing = threading.Lock()
        self._closed = threading.Event()
        self._workers = ThreadPoolExecutor(2, thread_name_prefix="admission")
        self._delivery = Delivery(self._deliver, share=serving.delivery_share)
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._watcher.start()

    def submit(self, values: Mapping[str, Any], request_id: str, reply: Reply, *, probe: bool = False) -> None:
        """Take a request and return at once; every outcome goes to ``reply``. A probe passes the queue bound."""
        arrival = time.monotonic()
        trace = Trace(request_id, 0) if probe else self.traces.begin(request_id, arrival)
        with self._lock:
            self._admitting[request_id] += 1
        try:
            self._workers.submit(self._admit, values, request_id, reply, arrival, probe, trace)
        except RuntimeError:  # the pool is shut down
            self._leave_admission(request_id)
            self._abandon(None, reply, refusals.draining(), probe, trace)

    def cancel(self, request_id: str) -> None:
        """End the request of that id, running or still being admitted; raises NotFound where there is none."""
        with self._lock:
            session = self._sessions.get(request_id)
            if session is None or session.ending:
                if not self._admitting[request_id]:
                    raise NotFound("unknown_request", f"stop: no running request has the id '{request_id}'.")
                self._stopped_early.add(request_id)
                return
        session.verdict = session.verdict or "cancelled"
        self._engine.cancel(session.request.request_id)

    def wait_closed(self, seconds: float) -> bool:
        """Whether it was closed, at the latest after so many seconds."""
        return self._closed.wait(seconds)

    @property
    def max_running(self) -> int:
        return self._engine.limits.max_running

    @property
    def prioritises(self) -> bool:
        """Whether a request may ask for a priority."""
        return self._engine.capabilities.priorities

    def drain(self) -> None:
        """Refuse new requests from now on; those admitted run on."""
        self._draining = True

    def status(self) -> dict[str, Any]:
        """The state the launcher watches; cheap, and never waits for the engine."""
        stats = self._engine.stats()
        with self._lock:
            unfinished = len(self._sessions) + self._admitting.total()
        running = min(stats.running, unfinished)
        return {
            "healthy": self._engine.healthy() and self._delivery.is_alive() and self._watcher.is_alive(),
            "draining": self._draining,
            "refuses": self._admission.memory.shortage(),
            "running": running,
            "waiting": unfinished - running,
            "steps": stats.steps,
            "stats": asdict(stats),
        }

    def prefixes(self, limit: int) -> dict[str, Any]:
        """The hashes of the prompt blocks that are cached, at most ``limit`` of them, those computed last first."""
        hashes = self._engine.prefix_hashes()
        return {
            "hash": PREFIX_HASH if hashes else "",
            "block_size": self._engine.stats().block_size,
            "count": len(hashes),
            "hashes": [digest.hex() for digest in hashes[:limit]],
        }

    def close(self, grace_seconds: float) -> None:
        """Drain for at most ``grace_seconds``, cancel what is left, end all threads; idempotent."""
        self.drain()
        with self._closing:
            if not self._closed.is_set():
                self._close(grace_seconds)

    def _close(self, grace_seconds: float) -> None:
        self._workers.shutdown(wait=True)
        self._engine.drain(time.monotonic() + grace_seconds)
        self._engine.close()
        self._closed.set()
        self._watcher.join()
        self._delivery.close()

    def _admit(
        self, values: Mapping[str, Any], request_id: str, reply: Reply, arrival: float, probe: bool, trace: Trace
    ) -> None:
        session = None
        try:
            session = self._open(values, request_id, reply, arrival, probe, trace)
            trace.admitted(len(session.request.prompt_ids))
            sink = session.recorder.watch(session.request, self._delivery.sink(session), arrival)
            self._engine.submit(session.request, sink)
            if session.verdict is not None:  # stopped before the engine had it
                self._engine.cancel(session.request.request_id)
        except ServeError as error:
            self._abandon(session, reply, error, probe, trace)
        except Exception as trouble:
            _log.exception("admission of request '%s' failed", request_id)
            failure = EngineFailure("internal", f"request '{request_id}': {trouble!r}.")
            self._abandon(session, reply, failure, probe, trace)
        finally:
            self._leave_admission(request_id)

    def _leave_admission(self, request_id: str) -> None:
        with self._lock:
            self._admitting[request_id] -= 1
            if not self._admitting[request_id]:
                del self._admitting[request_id]
                self._stopped_early.discard(request_id)

    def _open(
        self, values: Mapping[str, Any], request_id: str, reply: Reply, arrival: float, probe: bool, trace: Trace
    ) -> Session:
        if self._draining and not probe:
            raise refusals.draining()
        if not probe and self._is_full():
            raise refusals.queue_full(self._serving.max_queue_size, self._rate.retry_after())
        admitted = self._admission.admit(values, f"{request_id}#{next(self._numbers)}")
        admitted = replace(admitted, request=replace(admitted.request, trace=trace))
        session = Session(request_id, admitted, reply, self._tokenizer.token_bytes, arrival)
        session.recorder = self._recorders[probe]
        session.deadline = arrival + admitted.timeout if admitted.timeout else 0.0
        with self._lock:
            running = self._sessions.get(request_id)
            if running is not None and not running.ending:
                raise refusals.duplicate_id(request_id)
            if request_id in self._stopped_early:
                session.verdict = "cancelled"
            self._sessions[request_id] = session
        return session

    def _is_full(self) -> bool:
        """A burst that the engine has not looked at yet may still take the places that are free."""
        stats = self._engine.stats()
        free = max(0, self._engine.limits.max_running - stats.running)
        return stats.waiting - free >= self._serving.max_queue_size

    def _abandon(self, session: Session | None, reply: Reply, error: ServeError, probe: bool, trace: Trace) -> None:
        if session is not None:
            self._forget(session)
        trace.ended("error", error)
        self._recorders[probe].failed(error)
        reply.fail(error)

    def _forget(self, session: Session) -> None:
        with self._lock:
            if self._sessions.get(session.caller_id) is session:
                del self._sessions[session.caller_id]

    def _deliver(self, session: Session, events: list[Event]) -> None:
        try:
            session.on_events(events)
            self._cancel_cut_short(session)
        except Exception as error:
            self._mishap(session, error)
        if session.ended_at_engine:
            self._forget(session)
            self._rate.ended()
            session.recorder.ended(session.outcome())
            session.end_trace()

    def _cancel_cut_short(self, session: Session) -> None:
        """Sequences that a stop word ended; asked again until the engine has seen it."""
        request = session.request
        for index in session.cut_short:
            self._engine.cancel(request.request_id, index if request.sequence_count > 1 else None)

    def _mishap(self, session: Session, error: Exception) -> None:
        """Delivery broke: end the request at both ends."""
        request_id = session.caller_id
        _log.error("delivery to request '%s' failed", request_id, exc_info=error)
        self._engine.cancel(session.request.request_id)
        try:
            session.fail(EngineFailure("internal", f"request '{request_id}': {error!r}."))
        except Exception:
            _log.exception("request '%s' cannot be answered", request_id)  # its reply is what broke

    def _watch(self) -> None:
        while not self._closed.wait(_WATCH_SECONDS):
            with self._lock:
                sessions = list(self._sessions.values())
            now = time.monotonic()
            for session in sessions:
                try:
                    self._check(session, now)
                except Exception:
                    _log.exception("watching request '%s' failed", session.caller_id)

    def _check(self, session: Session, now: float) -> None:
        if session.verdict is not None:
            pass  # asked before; asked again in case the engine had not yet seen the request
        elif session.ended:
            return
        elif session.deadline and now >= session.deadline:
            session.verdict = "timeout"
        elif now >= session.next_cancel_check:
            session.next_cancel_check = now + _CANCEL_CHECK_SECONDS
            if session.reply.is_cancelled():
                session.verdict = "cancelled"
        if session.verdict is not None:
            self._engine.cancel(session.request.request_id)
