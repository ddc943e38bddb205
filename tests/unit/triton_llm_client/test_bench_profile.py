"""The parts of a token's and a request's time: they add up, and each is what it says."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from triton_llm_client.bench.load import Answer, Outcome
from triton_llm_client.bench.profile import engine_parts
from triton_llm_client.bench.profile.breakdown import BESIDE, LAG, OTHER, breakdown
from triton_llm_client.bench.profile.engine_parts import PARTS, EngineParts
from triton_llm_client.bench.profile.served_times import Times

ROOT = Path(__file__).parents[3]
MS = 1_000_000
# Sent at 0; 2 ms to the generator, 3 of queue, 95 of prefill; 10 ms a token; the way back takes 4, then 6 ms.
SERVED = Times(11, 0, 2 * MS, 5 * MS, 100 * MS, 200 * MS, 104 * MS, 206 * MS)
ALONE = Outcome(0.1, (Answer(11, 0.0, 0.1, (0.008,) * 10),))


def test_a_token_s_parts_add_up_to_what_the_client_measured() -> None:
    parts = {"schedule": 0.005, "build the batch": 0.005, "model (infer)": 0.08, "sample": 0.005}
    found = breakdown(1, ALONE, parts, [SERVED])
    assert found.token_seconds == pytest.approx(0.0102)
    assert sum(found.token.values()) == pytest.approx(found.token_seconds)
    assert found.token["model (infer)"] == pytest.approx(0.8 * 0.008)
    assert found.token[OTHER] == pytest.approx(0.05 * 0.008)
    assert found.token[BESIDE] == pytest.approx(0.002), "10 ms in the server, 8 alone"
    assert found.token[LAG] == pytest.approx(0.0002)


def test_a_request_s_parts_add_up_to_what_the_client_measured() -> None:
    found = breakdown(1, ALONE, dict.fromkeys(PARTS, 0.0), [SERVED, SERVED])
    assert list(found.request.values()) == pytest.approx([0.002, 0.003, 0.095, 0.1, 0.006])
    assert sum(found.request.values()) == pytest.approx(found.request_seconds)
    assert any("10.200 ms" in line for line in found.lines())


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_a_function_of_the_engine(part: str) -> None:
    """Renamed in the engine, it would be told as nothing."""
    end, name = PARTS[part]
    (file,) = (ROOT / "backends" / "python_llm" / "engines").glob(f"**/{end}")
    assert f"def {name}(" in file.read_text("utf-8")


def test_time_of_the_engine_s_thread_is_found_by_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_parts, "PARTS", {"nap": (Path(__file__).name, "nap")})
    parts = EngineParts()
    parts.watch_new_threads()
    thread = threading.Thread(target=nap, name="paged-engine")
    try:
        thread.start()
    finally:
        parts.leave()
    thread.join()
    assert parts.totals()["nap"] >= 0.05


def nap() -> None:
    time.sleep(0.05)


def test_tokens_of_the_first_chunk_have_no_gap() -> None:
    several = Times(11, 0, 2 * MS, 5 * MS, 100 * MS, 200 * MS, 104 * MS, 206 * MS, first_tokens=7)
    assert breakdown(1, ALONE, dict.fromkeys(PARTS, 0.0), [several]).token_seconds == pytest.approx(0.102 / 4)
