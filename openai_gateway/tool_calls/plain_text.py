"""The text around calls: spaces that lead to a call are no text, and half a marker is not said yet."""

from __future__ import annotations

from openai_gateway.tool_calls.events import Event, Said

__all__ = ["PlainText", "split_at"]


class PlainText:
    """Holds spaces back until text follows them."""

    def __init__(self) -> None:
        self._spaces = ""

    def say(self, text: str) -> list[Event]:
        whole = self._spaces + text
        said = whole.rstrip()
        self._spaces = whole[len(said) :]
        return [Said(said)] if said else []

    def drop_spaces(self) -> None:
        """A call follows."""
        self._spaces = ""

    def finish(self, *, calls: int) -> list[Event]:
        """Spaces at the end of an answer are text, and behind calls they are not."""
        said, self._spaces = self._spaces, ""
        return [Said(said)] if said and not calls else []


def split_at(text: str, marker: str) -> tuple[str, bool, str]:
    """What stands before ``marker``, whether it is there, and what stands behind it: half a marker at the end, if it
    is not there."""
    before, found, behind = text.partition(marker)
    if found:
        return before, True, behind
    half = next((size for size in range(min(len(marker) - 1, len(text)), 0, -1) if text.endswith(marker[:size])), 0)
    return text[: len(text) - half], False, text[len(text) - half :]
