"""Lines for a container's stdout: as they are, or as one JSON object each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

__all__ = ["FollowedFile", "Format", "render"]

Format = Literal["text", "json"]

# Triton's own head: I1130 12:00:00.000000 17 server.cc:1] "message", with or without the quotes.
_TRITON = re.compile(r"(?P<level>[IWEF])\d{4} [\d:.]+ \d+ (?P<place>[^\]\s]+:\d+)\] (?P<message>.*)")
_LEVELS = {"I": "info", "W": "warning", "E": "error", "F": "fatal"}


def render(line: str, source: str, form: Format) -> str:
    """One line of ``source`` (launcher or tritonserver). JSON: time, level, source, message, and place where told."""
    if form == "text":
        return line
    record = {"time": datetime.now(timezone.utc).isoformat(), "level": "info", "source": source, "message": line}
    if found := _TRITON.fullmatch(line):
        record |= {"level": _LEVELS[found["level"]], "place": found["place"], "message": found["message"].strip('"')}
    return json.dumps(record, ensure_ascii=False)


class FollowedFile:
    """A log that another process writes, and may begin anew: what was added since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def new_lines(self) -> Iterator[str]:
        """Whole lines; an unfinished last one waits for its end."""
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            if self._path.stat().st_size < self._offset:
                self._offset, self._rest = 0, b""
            log.seek(self._offset)
            new = log.read()
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")

    def rest(self) -> Iterator[str]:
        """What never got its end."""
        yield from self.new_lines()
        if self._rest:
            yield self._rest.decode("utf-8", "replace")
            self._rest = b""
