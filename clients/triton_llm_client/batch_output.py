"""The output of a batch: one line per line of input, in order, appended and flushed, so that a run can go on later."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from python_llm.errors import CallerMistake
from triton_llm_client.batch_line import identity

__all__ = ["BatchOutput"]


class BatchOutput:
    """Opened at construction; ``done`` holds the identities of the lines that are answered in it already, ``failed``
    the places (from 0) of those that ended in an error.

    A torn last line, of a run that was killed while it wrote, is cut off.

    Raises:
        CallerMistake: the file is there and ``resume`` is not asked for, is no output of a batch, or cannot be written.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        self.done: list[str | int | None] = []
        self.failed: list[int] = []
        self.count = 0  # lines in the file now
        self._again: dict[int, bytes] = {}
        try:
            self._file: BinaryIO = path.open("r+b" if path.exists() else "x+b")
        except OSError as error:
            raise CallerMistake(f"output '{path}': {error.strerror}; it must be a file that can be written.") from error
        try:
            self._take_over(resume)
        except BaseException:
            self._file.close()
            raise

    def write(self, result: Mapping[str, Any]) -> None:
        self._file.write(_raw(result))
        self._file.flush()
        self.count += 1

    def replace(self, place: int, result: Mapping[str, Any]) -> None:
        """Put ``result`` in the place of one that was there; in the file once `settle` is called."""
        self._again[place] = _raw(result)

    def settle(self) -> None:
        """Write the file anew, with what was replaced, beside the old one and then in its place."""
        if not self._again:
            return
        path = self._path.resolve()  # a link stays one
        scratch = path.with_name(f"{path.name}.new")
        self._file.seek(0)
        with scratch.open("wb") as new:
            new.writelines(self._again.get(place, raw) for place, raw in enumerate(self._file))
            new.flush()
            os.fsync(new.fileno())
        self._file.close()
        scratch.replace(path)
        self._file = self._path.open("r+b")
        self._file.seek(0, os.SEEK_END)
        self._again.clear()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> BatchOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take_over(self, resume: bool) -> None:
        end = 0
        for number, raw in enumerate(self._file, 1):
            if not resume:
                raise CallerMistake(
                    f"output '{self._path}': it exists; go on with --resume, or remove it, or choose another."
                )
            if not raw.endswith(b"\n"):
                break
            self._take(number, raw)
            end += len(raw)
        self.count = len(self.done)
        self._file.seek(end)
        self._file.truncate()

    def _take(self, number: int, raw: bytes) -> None:
        try:
            result = json.loads(raw)
        except ValueError:
            result = None
        if not isinstance(result, dict) or "error" not in result:
            raise CallerMistake(
                f"output '{self._path}', line {number}: it is no line of a batch's output; choose another file."
            )
        if result["error"] is not None:
            self.failed.append(len(self.done))
        self.done.append(identity(result))


def _raw(result: Mapping[str, Any]) -> bytes:
    return json.dumps(result, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
