"""Lines of a container's stdout."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from triton_launcher.log_lines import FollowedFile, render

TRITON = "E1130 12:00:01.123456 17 model_lifecycle.cc:654] \"failed to load 'x'\""


def test_text_stays_as_it_is() -> None:
    assert render(TRITON, "tritonserver", "text") == TRITON


def test_json_tells_level_and_place_of_tritons_lines() -> None:
    record = json.loads(render(TRITON, "tritonserver", "json"))
    assert record.pop("time").endswith("+00:00")
    assert record == {
        "level": "error",
        "source": "tritonserver",
        "place": "model_lifecycle.cc:654",
        "message": "failed to load 'x'",
    }


@given(st.text())
def test_any_line_is_one_json_object_on_one_line(line: str) -> None:
    text = render(line, "launcher", "json")
    assert "\n" not in text
    assert "message" in json.loads(text)


@given(st.lists(st.text(st.characters(codec="ascii"), max_size=20), max_size=8))
def test_what_was_written_is_read_once_and_in_whole_lines(pieces: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        followed, found = FollowedFile(path), list[str]()
        for piece in pieces:
            with path.open("ab") as log:
                log.write(piece.encode())
            found += followed.new_lines()
        found += followed.rest()
    *lines, last = "".join(pieces).split("\n")
    assert found == [*lines, *filter(None, [last])]


def test_a_log_that_begins_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old and long\n", "utf-8")
    followed = FollowedFile(path)
    assert list(followed.new_lines()) == []
    path.write_text("new\n", "utf-8")
    assert list(followed.new_lines()) == ["new"]
