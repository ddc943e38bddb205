"""Where a JSON value ends, character by character."""

from __future__ import annotations

__all__ = ["JsonValue"]

_OPEN, _CLOSE = frozenset("{["), frozenset("}]")


class JsonValue:
    """Push characters of one value after the other. Brackets and strings are followed; what else stands there is not
    checked. A number or a word ends before the first comma, bracket or space after it: that one is not taken.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.ended = False
        self._in_string = self._escaped = self._begun = False

    def take(self, char: str) -> bool:
        """Whether the character belongs to the value; ``ended`` is set by its last one, or by the first after it."""
        if self._in_string:
            self._take_in_string(char)
            return True
        if self._begun and self.depth == 0 and (char in ",]}" or char.isspace()):
            self.ended = True
            return False
        self._begun = True
        if char == '"':
            self._in_string = True
        elif char in _OPEN:
            self.depth += 1
        elif char in _CLOSE:
            self.depth -= 1
            self.ended = self.depth == 0
        return True

    def _take_in_string(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._in_string = False
            self.ended = self.depth == 0
