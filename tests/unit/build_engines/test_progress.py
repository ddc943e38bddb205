from __future__ import annotations

import io

from build_engines.progress import Bars, Lines, for_stream


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_lines_and_a_terminal_bars() -> None:
    assert type(for_stream(io.StringIO())) is Lines
    assert type(for_stream(Terminal())) is Bars


def test_each_phase_says_when_it_begins_and_how_long_it_took() -> None:
    stream = io.StringIO()
    progress = Lines(stream)
    for name in ("one", "two"):
        progress.phase(name)
        progress.advance(1, 2)
    progress.close()
    progress.close()
    lines = stream.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["one ...", "one", "two ...", "two"]
    assert lines[1].endswith(" s")


def test_a_bar_closes_with_its_phase() -> None:
    stream = Terminal()
    progress = Bars(stream)
    progress.phase("one")
    progress.advance(1, 2)
    progress.advance(2, 2)
    progress.phase("two")
    progress.close()
    assert "two: " in stream.getvalue()
