"""JSON as it is sent: compact, text as it is, and in one line for every reader of lines."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

__all__ = ["JsonAnswer", "json_text"]

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
# JSON escapes the controls below U+0020 itself. Some clients split streams at whatever Unicode calls a line's end.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def json_text(value: Any) -> str:
    text = _encode(value)
    return text if text.isascii() else text.translate(_LINE_ENDS)


class JsonAnswer(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json_text(content).encode()
