"""A Dockerfile as its instructions, enough to ask what an image will be."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Dockerfile", "Instruction"]


@dataclass(frozen=True)
class Instruction:
    word: str  # FROM, RUN, …
    text: str  # the rest, continued lines joined

    @property
    def words(self) -> list[str]:
        """Of the exec form, which is JSON; else as a shell would cut them."""
        found: list[str] = json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)
        return found


@dataclass(frozen=True)
class Dockerfile:
    instructions: tuple[Instruction, ...]

    @staticmethod
    def read(file: Path) -> Dockerfile:
        lines = (line for line in file.read_text("utf-8").splitlines() if not line.lstrip().startswith("#"))
        joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
        found = (line.partition(" ") for line in joined.splitlines() if line.strip())
        return Dockerfile(tuple(Instruction(word.upper(), rest.strip()) for word, _, rest in found))

    def all(self, word: str) -> list[Instruction]:
        return [each for each in self.instructions if each.word == word]

    def stage(self, name: str) -> Dockerfile:
        """The stage ``FROM … AS name``, up to the next one."""
        starts = [place for place, each in enumerate(self.instructions) if each.word == "FROM"]
        (first,) = (place for place in starts if self.instructions[place].text.endswith(f" AS {name}"))
        later = [place for place in starts if place > first]
        return Dockerfile(self.instructions[first : later[0] if later else None])

    @property
    def image(self) -> Dockerfile:
        """The last stage: what is kept."""
        last = max(place for place, each in enumerate(self.instructions) if each.word == "FROM")
        return Dockerfile(self.instructions[last:])

    def settings(self, word: str) -> dict[str, str]:
        """Of ENV, LABEL or ARG: name -> value."""
        return dict(self._pairs(word))

    def _pairs(self, word: str) -> Iterator[tuple[str, str]]:
        for each in self.all(word):
            for pair in shlex.split(each.text):
                name, _, value = pair.partition("=")
                yield name, value
