"""The messages of a chat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

__all__ = ["Answer", "Conversation", "Message"]


class Message(TypedDict):
    role: str
    content: str


class Answer:
    """The answer as far as it has come."""

    def __init__(self) -> None:
        self.text = ""


class Conversation:
    """Messages so far, the optional system message first."""

    def __init__(self, system: str = "") -> None:
        self.system = system
        self._turns: list[Message] = []

    @property
    def messages(self) -> list[Message]:
        system: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        return system + self._turns

    def reset(self) -> None:
        """Forget every turn; the system message stays."""
        self._turns.clear()

    @contextmanager
    def turn(self, question: str) -> Iterator[Answer]:
        """Add the user's message, then what the block put into the answer.

        A turn without any answer, because it failed or was stopped before its first token, is forgotten: two user
        messages in a row are no chat to most templates.
        """
        answer = Answer()
        self._turns.append({"role": "user", "content": question})
        try:
            yield answer
        finally:
            if answer.text:
                self._turns.append({"role": "assistant", "content": answer.text})
            else:
                self._turns.pop()
