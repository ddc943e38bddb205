"""Grammars that the output must follow: which tokens may come next, by llguidance.

llguidance walks a grammar (Earley) over a trie of the tokens' bytes (github.com/guidance-ai/llguidance). It compiles
lazily, within limits of its own, and yet a hostile grammar can overflow its stack or keep it busy for minutes. So a
grammar is compiled in a process of its own first, which may crash or be killed; only what passes there is compiled
here.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path

import numpy as np
import tokenizers
from llguidance import LLMatcher, LLParserLimits, _lib

from python_llm.admission_json import NESTED_TOO_DEEPLY
from python_llm.engine import Guide
from python_llm.engines.paged import grammar_trial
from python_llm.engines.paged.guides import lark_of
from python_llm.engines.paged.vocabulary import Mask, Vocabulary, has, packed
from python_llm.errors import EngineFailure, InvalidRequest

__all__ = ["GrammarCompiler", "Matcher"]

MAX_GUIDE_BYTES = 256 << 10
TRIAL_CPU_SECONDS = 1
TRIAL_WALL_SECONDS = 5.0
TRIAL_MEMORY_BYTES = 1 << 30
_KEPT_GRAMMARS = 64
_MESSAGE_CHARS = 300
_NOTHING_FITS = "NoExtensionBias"  # the library's word for it
# The library's defaults: 14 ms of lexing and 50,000 items a mask, 2,000 items a row; of lexer states (1 to 2 kB) fewer.
_LIMITS = LLParserLimits(max_lexer_states=50_000, verbose_errors=False)


class GrammarCompiler:
    """Guides to matchers; thread-safe.

    Cached: the trie of the vocabulary, made by the first ``compile`` (about 0.5 s for 49,152 tokens), and the grammars
    of the last 64 guides that passed their trial. The compiled grammar is not: its copies share the lexer's states,
    of which there is a greatest number, so requests would wear it out for each other.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer | Path | str, vocab_size: int, end_ids: Collection[int]) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._end_ids = frozenset(end_ids)
        self._lock = threading.Lock()
        self._vocabulary: Vocabulary | None = None
        self._passed: OrderedDict[Guide, str] = OrderedDict()  # the one used last, last

    def compile(self, guide: Guide, end_ids: Collection[int] | None = None) -> Matcher:
        """A matcher at the grammar's beginning; ``end_ids``: the request's own, where they are not the model's.

        Raises:
            InvalidRequest: ``guide_too_large``, ``guide_too_slow`` or ``guide_not_valid``.
        """
        _check_size(guide)
        with self._lock:
            vocabulary = self._vocabulary = self._vocabulary or self._read_vocabulary()
            known = self._passed.get(guide)
        lark = _tried(guide) if known is None else known
        matcher = LLMatcher(vocabulary.library, lark, log_level=0, limits=_LIMITS)
        if matcher.is_error():
            raise _not_valid(guide, matcher.get_error())
        self._keep(guide, lark)
        return Matcher(matcher, vocabulary, self._end_ids if end_ids is None else frozenset(end_ids))

    def _read_vocabulary(self) -> Vocabulary:
        is_path = isinstance(self._tokenizer, (str, Path))
        tokenizer = tokenizers.Tokenizer.from_file(str(self._tokenizer)) if is_path else self._tokenizer
        return Vocabulary(tokenizer, self._vocab_size)

    def _keep(self, guide: Guide, lark: str) -> None:
        with self._lock:
            self._passed[guide] = lark
            self._passed.move_to_end(guide)
            if len(self._passed) > _KEPT_GRAMMARS:
                self._passed.popitem(last=False)


class Matcher:
    """One sequence's place in its grammar; used by one thread at a time."""

    def __init__(self, matcher: LLMatcher, vocabulary: Vocabulary, end_ids: frozenset[int]) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._end_ids = end_ids
        self._ends = packed(end_ids, vocabulary.size)
        self._inside = vocabulary.ordinary & ~self._ends
        self._ended = False
        self._allowed: tuple[Mask, bool] | None = None  # (tokens that go on, may it end here?) of this state
        self.failure = ""  # why the library gave up on a grammar that grew too complex; nothing is allowed then

    def mask(self) -> Mask:
        """What may come next, not to be changed: uint32 [ceil(vocabulary / 32)], bit i % 32 of word i // 32 for id i.

        End ids are allowed exactly where the grammar may end; special and padding ids never.
        """
        going_on, may_end = self._look()
        return going_on | self._ends if may_end else going_on

    def accept(self, token_id: int) -> bool:
        """Step over a token; False, and nothing changes, where it does not fit."""
        if self._ended or self.failure:
            return False
        if token_id in self._end_ids:
            self._ended = self._look()[1]
            if self._ended:
                self._allowed = _nothing(self._inside)
            return self._ended
        if not has(self._inside, token_id) or self._matcher.is_stopped():
            return False
        if self._matcher.try_consume_tokens([token_id]) != 1:
            return False
        self._allowed = None
        return True

    @property
    def finished(self) -> bool:
        """Whether the text is complete and nothing but an end token can follow."""
        if self._ended:
            return True
        if self.failure or not self._matcher.is_accepting():
            return False
        going_on, may_end = self._look()
        return may_end and not going_on.any()

    def fork(self) -> Matcher:
        """An independent copy at the same place."""
        copy = Matcher(self._matcher.deep_copy(), self._vocabulary, self._end_ids)
        copy._ended, copy._allowed, copy.failure = self._ended, self._allowed, self.failure
        return copy

    def _look(self) -> tuple[Mask, bool]:
        if self._allowed is None:
            self._allowed = self._compute()
        return self._allowed

    def _compute(self) -> tuple[Mask, bool]:
        found = np.frombuffer(self._matcher.compute_bitmask(), "<u4").astype(np.uint32, copy=False)
        if self._matcher.is_error():
            self.failure = _told(self._matcher.get_error())
            return _nothing(self._inside)
        return found[: len(self._inside)] & self._inside, has(found, self._vocabulary.size)


def _nothing(like: Mask) -> tuple[Mask, bool]:
    return np.zeros_like(like), False


def _check_size(guide: Guide) -> None:
    if len(guide.text) > MAX_GUIDE_BYTES or len(guide.text.encode("utf-8", "replace")) > MAX_GUIDE_BYTES:
        raise InvalidRequest(
            "guide_too_large",
            f"guided_decoding_guide: {len(guide.text)} characters; at most {MAX_GUIDE_BYTES} bytes: shorten it.",
        )


def _tried(guide: Guide) -> str:
    """The guide's grammar, once it has compiled in a process of its own."""
    try:
        lark = lark_of(guide)
        lark.encode()
    except RecursionError as error:
        raise _not_valid(guide, f"it is {NESTED_TOO_DEEPLY}") from error
    except UnicodeEncodeError as error:  # JSON can say what UTF-8 cannot
        raise _not_valid(guide, "it holds half a surrogate pair") from error
    except Exception as error:  # the library's converters raise it bare
        raise _not_valid(guide, str(error) or type(error).__name__) from error
    _try(guide, lark)
    return lark


def _try(guide: Guide, lark: str) -> None:
    """Compile in a process of its own; see the module docstring."""
    program = [_python(), "-I", "-S", grammar_trial.__file__, str(Path(_lib.__file__).parent)]
    bounds = [str(TRIAL_CPU_SECONDS), str(TRIAL_MEMORY_BYTES)]
    try:
        done = subprocess.run(
            [*program, *bounds],
            input=lark.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TRIAL_WALL_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise _too_slow(guide) from error
    if done.returncode == -signal.SIGXCPU:
        raise _too_slow(guide)
    if not done.stdout.startswith(grammar_trial.READY):
        raise EngineFailure("guide_trial_failed", f"guide: the trial of a grammar did not start ({done.returncode}).")
    if done.returncode or not done.stdout.endswith(grammar_trial.DONE):
        raise _not_valid(guide, "it is nested too deeply or needs too much memory")
    complaint = done.stdout[len(grammar_trial.READY) : -len(grammar_trial.DONE)].decode("utf-8", "replace")
    if complaint:
        raise _not_valid(guide, complaint)


def _python() -> str:
    """An interpreter; Triton's stub embeds one, and is none. Any will do: the library has a stable ABI."""
    own = sys.executable or ""
    found = own if Path(own).name.startswith("python") else shutil.which("python3")
    if found is None:
        raise EngineFailure("guide_trial_failed", "guide: no python3 on the PATH to try a grammar with.")
    return found


def _too_slow(guide: Guide) -> InvalidRequest:
    text = f"{_name(guide)}: it takes over {TRIAL_CPU_SECONDS} s to compile; make it simpler."
    return InvalidRequest("guide_too_slow", text)


def _not_valid(guide: Guide, complaint: str) -> InvalidRequest:
    return InvalidRequest("guide_not_valid", f"{_name(guide)}: {_told(complaint)}; correct it.")


def _name(guide: Guide) -> str:
    return f"guided_decoding_guide of kind '{guide.kind}'"


def _told(complaint: str) -> str:
    """The library's message without its listing of the grammar."""
    first, *rest = complaint.strip().splitlines() or [""]
    reasons = [line.removeprefix("error: ") for line in rest if line.startswith("error: ")]
    told = " ".join([first, *reasons]).replace("<non-verbose/>", "").strip(" .;:")
    if told == _NOTHING_FITS:
        return "no text fits it: it is recursive without ever giving text, or its parts exclude each other"
    return told[:_MESSAGE_CHARS]
