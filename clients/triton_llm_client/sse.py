"""Server-sent events out of bytes that arrive in any pieces."""

from __future__ import annotations

__all__ = ["SseParser"]


class SseParser:
    """Collects the ``data`` of events.

    Lines end at LF, CRLF or CR and nothing else: text may hold U+2028, U+0085 and their like unescaped, so lines
    are cut in bytes, and characters are decoded only once an event is whole.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Take the next bytes; return the data of each event they complete, its lines joined by LF."""
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        buffer = self._rest + piece
        self._after_cr = buffer.endswith(b"\r")
        *lines, self._rest = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> str | None:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        data, self._data = self._data, []
        return b"\n".join(data).decode() if data else None
