"""The executor: a thread that decodes one token of each running request in each step."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from tensorrt_llm._model import Logprob, ToyModel, log_softmax, top
from tensorrt_llm._ranks import Ranks
from tensorrt_llm._result import RequestOutput, Update
from tensorrt_llm._script import Script
from tensorrt_llm._sequence import Decoding
from tensorrt_llm.executor import RequestError

__all__ = ["Executor", "Job"]


@dataclass
class Job:
    """One request in the executor. Higher ``priority`` runs earlier."""

    result: RequestOutput
    prompt: Sequence[int]
    params: Any
    sequences: list[Decoding]
    streaming: bool
    priority: float = 0.5
    steps: int = field(default=0)


class Executor:
    """Ends with `shutdown`, or by its script; then every request gets the error, and so does `submit`."""

    def __init__(self, model: ToyModel, script: Script, *, places: int, block: int, blocks: int, ranks: int) -> None:
        self.stats: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._model = model
        self._script = script
        self._places = places
        self._block, self._blocks = block, blocks
        self._wake = threading.Condition()
        self._jobs: dict[int, Job] = {}
        self._seen: set[tuple[int, ...]] = set()  # prompt blocks that are cached
        self._reused = self._missed = self._steps = 0
        self._death: Exception | None = None
        self._closed = False
        self._ranks: Ranks | None = None
        if ranks > 1:
            self._ranks = Ranks(ranks, self._die_of, last_dies=script.rank_dies_at_start)
        if self._death is not None:
            self.shutdown()
            raise self._death
        self._thread = threading.Thread(target=self._run, name="fake-executor", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        with self._wake:
            self.check_health()
            self._jobs[job.result.request_id] = job
            self._wake.notify_all()

    def abort(self, request_id: int) -> None:
        with self._wake:
            job = self._jobs.pop(request_id, None)
            if job is not None:
                self._end_all(job, "cancelled")
            self._wake.notify_all()

    def check_health(self) -> None:
        if self._death is not None:
            raise self._death
        if self._closed:
            raise RuntimeError("LLM is shutting down")

    def shutdown(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        if self._ranks is not None:
            self._ranks.close()

    def _die_of(self, text: str) -> None:
        self._die(RuntimeError(text))

    def _die(self, error: Exception) -> None:
        with self._wake:
            self._death = self._death or error
            for job in self._jobs.values():
                job.result.put(Update(error=error))
            self._jobs.clear()
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closed or self._death or self._jobs)
                if self._script.step_seconds:
                    self._wake.wait_for(lambda: self._closed, self._script.step_seconds)
                if self._closed or self._death:
                    return
                self._step()
            if self._steps == self._script.die_at:
                self._die(RuntimeError(f"executor: told to die at step {self._steps}"))
            if self._steps == self._script.rank_dies_at and self._ranks is not None:
                self._ranks.kill_last()

    def _step(self) -> None:
        self._steps += 1
        running = sorted(self._jobs.values(), key=lambda job: -job.priority)[: self._places]
        for job in running:
            self._advance(job)
        self.stats.put(self._figures(len(running)))

    def _advance(self, job: Job) -> None:
        if not job.steps:
            self._take_blocks(job.prompt)
        job.steps += 1
        for sequence in job.sequences:
            if sequence.finish_reason is None:
                sequence.step()
        finished = all(sequence.finish_reason for sequence in job.sequences)
        if self._script.fail_id in job.prompt:
            job.result.put(Update(error=RequestError(f"token {self._script.fail_id}: told to fail on it")))
            finished = True
        elif job.streaming or finished:
            self._tell(job, finished)
        if finished:
            del self._jobs[job.result.request_id]

    def _end_all(self, job: Job, reason: str) -> None:
        for sequence in job.sequences:
            sequence.finish_reason = sequence.finish_reason or reason
        self._tell(job, True)

    def _tell(self, job: Job, finished: bool) -> None:
        first = job.steps == 1 or not job.streaming
        prompt_logprobs = self._prompt_logprobs(job.prompt, job.params.prompt_logprobs) if first else []
        job.result.put(Update(tuple(s.snapshot(prompt_logprobs) for s in job.sequences), finished))

    def _prompt_logprobs(self, prompt: Sequence[int], count: int | None) -> list[dict[int, Logprob]]:
        rows = []
        for end in range(1, len(prompt)) if count is not None else ():
            log_probs = log_softmax(self._model.logits(prompt[:end], ()))
            ids = dict.fromkeys([*top(log_probs, count or 0), prompt[end]])
            rows.append({i: Logprob(float(log_probs[i]), int((log_probs > log_probs[i]).sum()) + 1) for i in ids})
        return rows

    def _take_blocks(self, prompt: Sequence[int]) -> None:
        for end in range(self._block, len(prompt), self._block):
            known = tuple(prompt[:end]) in self._seen
            self._reused += known
            self._missed += not known
            self._seen.add(tuple(prompt[:end]))

    def _figures(self, running: int) -> dict[str, Any]:
        used = sum(-(-(len(j.prompt) + len(s.ids)) // self._block) for j in self._jobs.values() for s in j.sequences)
        return {
            "iter": self._steps,
            "numActiveRequests": running,
            "numQueuedRequests": len(self._jobs) - min(running, len(self._jobs)),
            "kvCacheStats": {
                "maxNumBlocks": self._blocks,
                "usedNumBlocks": used,
                "freeNumBlocks": self._blocks - used,
                "tokensPerBlock": self._block,
                "reusedBlocks": self._reused,
                "missedBlocks": self._missed,
            },
            "inflightBatchingStats": {"numPausedRequests": 0},
        }
