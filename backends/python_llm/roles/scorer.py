"""The scorer role: token ids or texts to logits and log-probs; a batch of Triton's is as few forward passes as fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils
from python_llm.artifact import Artifact
from python_llm.contract import SCORER
from python_llm.errors import EngineFailure, ServeError
from python_llm.request import read_parameters
from python_llm.roles.answers import error_response
from python_llm.scoring.answer import Answer, size_of
from python_llm.scoring.batch import run_rows
from python_llm.scoring.request import Job, JobReader
from python_llm.scoring.room import SharedRoom
from python_llm.scoring.runner import ScoreRunner, load_runner
from python_llm.settings import ModelEntry
from python_llm.tokenizer import Tokenizer

__all__ = ["ScorerRole"]


class ScorerRole:
    """A mistake in one request touches no other; what breaks a forward pass fails every request of the batch."""

    def __init__(
        self,
        entry: ModelEntry,
        model_json: Path,
        runner: ScoreRunner | None = None,
        room: SharedRoom | None = None,
    ) -> None:
        folder = entry.artifact_path(model_json)
        artifact = Artifact.open(folder)
        artifact.check_runtime()
        facts, limits = artifact.manifest.model, artifact.manifest.limits
        bounds = (facts.context_length, entry.serving.max_sequence_len, limits.max_seq_len)
        longest = min(bound for bound in bounds if bound)
        self._vocab_size = facts.vocab_size
        self._most_tokens = entry.serving.scorer_batch_tokens
        self._most_rows = limits.max_batch_size
        self._runner = runner or load_runner(artifact, entry.serving)
        self._reader = JobReader(
            Tokenizer.load(folder), facts.vocab_size, longest, cached=bool(entry.serving.scorer_cache_bytes)
        )
        self._room = room or SharedRoom()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        self._room.begin()
        read = [self._read(request) for request in requests]
        jobs = {number: job for number, job in enumerate(read) if isinstance(job, Job)}
        try:
            answers = self._run(jobs)
        except Exception as error:
            pb_utils.Logger.log_error(f"a batch of {len(jobs)} requests: {error!r}")
            failure = EngineFailure("engine_failed", f"forward pass of {len(jobs)} requests: {error}.")
            return [error_response(failure if isinstance(found, Job) else found) for found in read]
        return [
            _response(answers[number]) if isinstance(found, Job) else error_response(found)
            for number, found in enumerate(read)
        ]

    def finalize(self) -> None:
        pass

    def _read(self, request: Any) -> Job | ServeError:
        try:
            read_parameters(request.parameters(), SCORER)
            job = self._reader.read(request.inputs(), request.requested_output_names())
            self._room.take(size_of(job, self._vocab_size), f"answer of {len(job.rows)} x {job.width} tokens")
            return job
        except ServeError as error:
            return error
        except Exception as error:
            pb_utils.Logger.log_error(f"request '{request.request_id()}': {error!r}")
            return EngineFailure("internal", f"request '{request.request_id()}': {error!r}.")

    def _run(self, jobs: Mapping[int, Job]) -> Mapping[int, Answer]:
        """The answers, by the number of their request."""
        answers = {number: Answer(job, self._vocab_size) for number, job in jobs.items()}
        places = [(number, row) for number, job in jobs.items() for row in range(len(job.rows))]
        rows = [jobs[number].rows[row] for number, row in places]
        for index, logits in run_rows(self._runner, rows, self._most_tokens, self._most_rows):
            number, row = places[index]
            answers[number].fill(row, logits)
        return answers


def _response(answer: Answer) -> Any:
    tensors = [pb_utils.Tensor(name, array) for name, array in answer.arrays.items()]
    return pb_utils.InferenceResponse(output_tensors=tensors)
