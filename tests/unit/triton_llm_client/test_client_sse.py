from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_llm_client.sse import SseParser


def events(pieces: list[bytes]) -> list[str]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", ["a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data:a\n\ndata:  b\n\n", ["a", " b"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b": a comment\nevent: x\nid: 1\ndata: a\n\n", ["a"]),
        (b"\n\n\n", []),
        (b"data: unfinished\n", []),
        ("data: \u2028 \u2029 \x85 \x0b \x0c \x1c é\n\n".encode(), ["\u2028 \u2029 \x85 \x0b \x0c \x1c é"]),
    ],
)
def test_whole_and_byte_by_byte(stream: bytes, expected: list[str]) -> None:
    assert events([stream]) == expected
    assert events([bytes([byte]) for byte in stream]) == expected


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    st.lists(st.integers(0, 400)),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_any_text_in_any_pieces(texts: list[str], cuts: list[int], end: str) -> None:
    stream = "".join(f"data: {json.dumps(t, ensure_ascii=False)}{end}{end}" for t in texts).encode()
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert [json.loads(event) for event in events(pieces)] == texts
