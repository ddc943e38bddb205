"""Guides are compiled beside the engine: a slow or broken one touches its own request alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from python_llm.engine import GenerateRequest, GuideKind
from python_llm.engines.paged.sequence import Sequence
from python_llm.errors import EngineFailure, InvalidRequest, ServeError, Unsupported

if TYPE_CHECKING:
    from python_llm.engines.paged.grammar import GrammarCompiler, Matcher

__all__ = ["GuideQueue"]

_log = logging.getLogger(__name__)
_KINDS: frozenset[GuideKind] = frozenset({"json", "json_schema", "regex", "ebnf_grammar", "structural_tag"})


class GuideQueue:
    """Threads that compile guides. ``compiler`` None: there are no guides."""

    def __init__(self, compiler: GrammarCompiler | None) -> None:
        self._compiler = compiler
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="guides")
        self.kinds = _KINDS if compiler is not None else frozenset[GuideKind]()

    def prepare(self, sequence: Sequence, done: Callable[[Sequence, ServeError | None], None]) -> None:
        """Give the sequence its matcher and call ``done`` on a thread of its own, with what went wrong or None."""
        self._threads.submit(self._prepare, sequence, done)

    def close(self) -> None:
        """Return when all are done: each takes no longer than the compiler's bound."""
        self._threads.shutdown(wait=True)

    def _prepare(self, sequence: Sequence, done: Callable[[Sequence, ServeError | None], None]) -> None:
        request = sequence.request
        failure: ServeError | None = None
        try:
            sequence.matcher = self._matcher(request)
        except ServeError as error:
            failure = error
        except Exception as error:
            _log.exception("the guide of request '%s' failed", request.request_id)
            failure = EngineFailure("engine_failed", f"request '{request.request_id}': its guide: {error!r}.")
        done(sequence, failure)

    def _matcher(self, request: GenerateRequest) -> Matcher:
        if self._compiler is None or request.guide is None:
            raise Unsupported("not_supported", "guided_decoding_guide: this engine has no such ability; leave it out.")
        matcher = self._compiler.compile(request.guide, request.end_ids)
        for position, token_id in enumerate(request.resume_ids):
            if not matcher.accept(token_id):
                raise InvalidRequest(
                    "resume_breaks_guide",
                    f"resume_ids[{position}]: {token_id} breaks the guide; resume with the guide it came from.",
                )
        return matcher
