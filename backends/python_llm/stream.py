"""One sequence's text as it grows: exact incremental detokenisation with text-level stop words.

Laws (property-tested): the concatenated deltas are the full text; a token's id is sent only once all its text is
sent, or cut by a stop; nothing that may still belong to a stop word or to an unfinished character is sent.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from python_llm.stop_words import StopWords
from python_llm.token_bytes import TokenBytes

__all__ = ["Delta", "TextStream"]


@dataclass(frozen=True, slots=True)
class Delta:
    """New text, and the ids of the tokens whose text it completes.

    The text is what the bytes of ``context`` and ``ids`` stand for, less ``skip`` UTF-8 bytes at its beginning (sent
    before) and what a stop word cut from its end. Only a stream's first delta has a context: where it is resumed, the
    tokens in which the character began that was unfinished then; where it repeats its prompt, the prompt.
    """

    text: str
    ids: tuple[int, ...]
    context: tuple[int, ...] = ()
    skip: int = 0

    def __bool__(self) -> bool:
        return bool(self.text or self.ids)

    @staticmethod
    def join(deltas: Sequence[Delta]) -> Delta:
        """One delta that says what these say in order."""
        first = next((d for d in deltas if d.context), Delta("", ()))
        ids = tuple(i for d in deltas for i in d.ids)
        return Delta("".join(d.text for d in deltas), ids, first.context, first.skip)


class TextStream:
    """Push ids, get deltas. ``stop_word`` is set once a stop word ended the text; later ids are ignored."""

    def __init__(
        self, token_bytes: TokenBytes, stop_words: StopWords, min_tokens: int = 0, *, keep_stop_word: bool = False
    ) -> None:
        self._token_bytes = token_bytes
        self._words = stop_words
        self._keep_stop_word = keep_stop_word
        self._state = 0
        self._min_tokens = min_tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # text not sent yet
        self._tokens: deque[tuple[int, int]] = deque()  # (id, where its text ends in _held); -1: unfinished character
        self._context: tuple[tuple[int, ...], int] = ((), 0)  # of the next delta
        self._echo = ""  # text before the next delta's own
        self.token_count = 0
        self.stop_word: str | None = None

    def resume(self, ids: Sequence[int]) -> None:
        """Take over tokens that were produced and sent elsewhere."""
        whole, text_end = 0, 0  # tokens, and characters of text, up to the last whole character
        for position, token_id in enumerate(ids, start=1):
            self._take(token_id)
            if self._tokens[-1][1] >= 0:
                whole, text_end = position, len(self._held)
        self._context = (tuple(ids[whole:]), len(self._held[text_end:].encode()))
        self._held = ""
        self._tokens.clear()

    def echo(self, prompt_ids: Sequence[int]) -> None:
        """Begin the text with the prompt's; not of a resumed stream, whose beginning was sent."""
        self._echo = b"".join(self._token_bytes[token_id] for token_id in prompt_ids).decode("utf-8", "replace")
        self._context = (tuple(prompt_ids), 0)

    def push(self, ids: Sequence[int]) -> Delta:
        """Take new tokens; return what may be sent now (often empty while something is held back)."""
        for token_id in ids:
            if self.stop_word is None:
                self._take(token_id)
        return self._release_all() if self.stop_word is not None else self._release_safe()

    def finish(self) -> Delta:
        """The end of the tokens: send what was held back; bytes that never became a character are U+FFFD."""
        if self.stop_word is None:
            self._held += self._utf8.decode(b"", final=True)
        return self._release_all()

    def _take(self, token_id: int) -> None:
        self.token_count += 1
        text = self._utf8.decode(self._token_bytes[token_id])
        begin = len(self._held)
        self._held += text
        for offset, char in enumerate(text):
            self._state = self._words.step(self._state, char)
            word = self._words.matched[self._state]
            if word is not None and self.token_count > self._min_tokens:
                self.stop_word = word
                cut = 0 if self._keep_stop_word else len(word)
                self._held = self._held[: max(0, begin + offset + 1 - cut)]
                break
        unfinished = bool(self._utf8.getstate()[0])
        self._tokens.append((token_id, -1 if unfinished else len(self._held)))

    def _release_safe(self) -> Delta:
        safe = len(self._held) - self._words.depth[self._state]
        count, end = 0, 0
        for position, (_, token_end) in enumerate(self._tokens, start=1):
            if token_end > safe:
                break
            if token_end >= 0:
                count, end = position, token_end
        ids = tuple(self._tokens.popleft()[0] for _ in range(count))
        text, self._held = self._held[:end], self._held[end:]
        if end:
            self._tokens = deque((i, e if e < 0 else e - end) for i, e in self._tokens)
        return self._delta(text, ids)

    def _release_all(self) -> Delta:
        ids, text = tuple(token_id for token_id, _ in self._tokens), self._held
        self._held = ""
        self._tokens.clear()
        return self._delta(text, ids, last=True)

    def _delta(self, text: str, ids: tuple[int, ...], *, last: bool = False) -> Delta:
        if not (text or ids or (last and self._echo)):
            return Delta("", ())
        (context, skip), self._context = self._context, ((), 0)
        echo, self._echo = self._echo, ""
        return Delta(echo + text, ids, context, skip)
