"""The installed TensorRT-LLM: every difference between its versions is found out here, and nowhere else."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from python_llm.engines.tensorrt.api import old_names
from python_llm.errors import CallerMistake, EngineFailure

__all__ = ["BACKENDS", "OF_A_REQUEST", "Library"]

# artifact kind -> the library's own word for what runs it
BACKENDS = {"tensorrt_llm-engine": "tensorrt", "tensorrt_llm-checkpoint": "pytorch"}
ARGUMENTS = {"tensorrt": "TrtLlmArgs", "pytorch": "TorchLlmArgs"}
_PLACES = ("llmapi", "executor", "lora_helper")
# Errors of one request; whatever else comes out of the library means that its executor is broken.
OF_A_REQUEST = (ValueError, TypeError, NotImplementedError)


class Library:
    """What the adapter uses of it. ``backend``: ``tensorrt`` (engines) or ``pytorch`` (checkpoints)."""

    def __init__(self, backend: str) -> None:
        """Imports it.

        Raises:
            EngineFailure: it is not there, or this version cannot run the kind of artifact.
        """
        self.backend = backend
        try:
            self._root: Any = import_module("tensorrt_llm")
        except ImportError as error:
            raise EngineFailure(
                "library_missing", f"tensorrt_llm: {error}; serve this artifact in the GPU container."
            ) from error
        self.version = str(getattr(self._root, "__version__", "unknown"))
        self.llm = self._llm_class()
        self._takes = inspect.signature(self.llm.generate_async).parameters

    @property
    def takes_priority(self) -> bool:
        return "priority" in self._takes

    @property
    def takes_cache_salt(self) -> bool:
        return "cache_salt" in self._takes

    @property
    def bans_words(self) -> bool:
        """Whether words of several tokens can be banned; a version without the field bans single tokens alone."""
        return self.has_field("SamplingParams", "_bad_word_ids")

    @staticmethod
    def ban(params: Any, words: Sequence[Sequence[int]]) -> None:
        """The library makes these ids of the texts in ``bad``, unless it is given an end id, as it is here."""
        params.bad = []
        params._bad_word_ids = [list(word) for word in words]

    def make(self, name: str, values: Mapping[str, Any]) -> Any:
        """An object of class ``name``; raises CallerMistake for a field this version does not have."""
        kind = self.symbol(name)
        known = _field_names(kind)
        renamed = {new: old for new, old in old_names(name).items() if new not in known and old in known}
        given = {renamed.get(key, key): value for key, value in values.items()}
        self.check_names(name, given)
        return kind(**given)

    def check_names(self, name: str, given: Mapping[str, Any]) -> None:
        for key in given:
            if key not in _field_names(self.symbol(name)):
                raise CallerMistake(
                    f"engine_options, key '{key}' of {name}: TensorRT-LLM {self.version} does not have it; leave it "
                    "out, or use another version."
                )

    def has_field(self, name: str, field: str) -> bool:
        return field in _field_names(self.symbol(name))

    def symbol(self, name: str) -> Any:
        places = [self._root, *(import_module(f"tensorrt_llm.{place}") for place in _PLACES)]
        found = [getattr(place, name) for place in places if hasattr(place, name)]
        if not found:
            raise CallerMistake(f"TensorRT-LLM {self.version}: it has no {name}; use another version.")
        return found[0]

    def is_alive(self, llm: Any) -> bool:
        """Newer versions can be asked; the older ones show it when a request fails."""
        check = getattr(llm, "_check_health", None)
        return check is None or bool(check())

    @staticmethod
    def is_of_the_request(error: Exception) -> bool:
        """Whether the error is one request's own, so that the executor goes on."""
        return isinstance(error, OF_A_REQUEST) or type(error).__name__ == "RequestError"

    def _llm_class(self) -> Any:
        if self.backend == "pytorch":
            return self._root.LLM
        try:
            return import_module("tensorrt_llm._tensorrt_engine").LLM
        except ImportError as error:
            raise EngineFailure(
                "engines_not_supported",
                f"TensorRT-LLM {self.version}: it runs no engines any more (1.2 was the last); serve the quantised "
                "checkpoint (artifact kind tensorrt_llm-checkpoint), or use 1.2.1.",
            ) from error


def _field_names(kind: Any) -> frozenset[str]:
    if hasattr(kind, "model_fields"):
        return frozenset(kind.model_fields)
    return frozenset(field.name for field in dataclasses.fields(kind))
