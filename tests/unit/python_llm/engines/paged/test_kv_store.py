"""Blocks that leave the pool and come back: whatever happens to them, the tokens are those of the plain loop."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import Collector
from fake_runner import FakeRunner
from python_llm.engine import EngineStats, GenerateRequest
from python_llm.engines.paged import kv_costs
from python_llm.engines.paged.engine import PagedEngine
from python_llm.engines.paged.kv_costs import LoadCosts
from python_llm.engines.paged.kv_files import KvFiles
from python_llm.engines.paged.speculation import Speculation
from python_llm.settings import ServingConfig
from tests.unit.python_llm.engines.paged.test_beams import Search, searches
from tests.unit.python_llm.engines.paged.test_paged_engine import (
    CONTEXT,
    FixedPrice,
    Guesser,
    at_step,
    check,
    engine_over,
    least_blocks,
    requests_of,
    run_together,
    workloads,
)

BLOCK = 4 * 8  # tokens, bytes each
FILE = BLOCK + 80
PROMPT = GenerateRequest("x", tuple(range(17)), 6)  # four full blocks, and a token more


@pytest.fixture
def dear_prefill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading always pays, and is waited for."""
    monkeypatch.setattr(kv_costs, "_GUESSED_PREFILL_SECONDS", 60.0)
    monkeypatch.setattr(LoadCosts, "learn_step", lambda *measured: None)


def on_disk(folder: Path, **more: Any) -> dict[str, Any]:
    return {"kv_disk_path": str(folder), "kv_disk_bytes": 1 << 20, **more}


def run(engine: PagedEngine, *requests: GenerateRequest) -> list[Collector]:
    sinks = [Collector(request.sequence_count) for request in requests]
    for request, sink in zip(requests, sinks, strict=True):
        engine.submit(request, sink)
    for request, sink in zip(requests, sinks, strict=True):
        check(request, sink)
    return sinks


def life(folder: Path, *requests: GenerateRequest, blocks: int = 100, **more: Any) -> tuple[list[int], EngineStats]:
    """Start, serve, stop: the cached tokens of each request, and the last figures."""
    with engine_over(FakeRunner(block_count=blocks), **on_disk(folder, **more)) as engine:
        cached = [run(engine, request)[0].finished().usage.cached_prompt_tokens for request in requests]
    return cached, engine.stats()


def damage(path: Path, how: int, stranger: bytes) -> None:
    data = path.read_bytes() or b"?"
    at = how % len(data)
    ways = [data[:at], data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :], stranger, b"", data + b"\0"]
    path.write_bytes(ways[how % len(ways)])


@given(
    requests=workloads(),
    block_size=st.integers(1, 6),
    spare=st.integers(0, 3),
    host=st.sampled_from([0, 50, 200, 1 << 20]),
    disk=st.sampled_from([0, 300, 1000, 1 << 20]),
    damages=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9999)), max_size=6),
    arrivals=st.lists(st.integers(1, 12), min_size=8, max_size=8),
    dear=st.booleans(),
    lies=st.sampled_from([0, 1, 3, 1000]),
)
def test_whatever_becomes_of_the_blocks_the_tokens_are_those_of_the_plain_loop(
    requests: list[GenerateRequest],
    block_size: int,
    spare: int,
    host: int,
    disk: int,
    damages: list[tuple[int, int]],
    arrivals: list[int],
    dear: bool,
    lies: int,
) -> None:
    """Tiny pools and tiers, preemption, guesses, restarts over one folder, files damaged between them and swapped."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_costs, "_GUESSED_PREFILL_SECONDS", 60.0 if dear else 0.002)
        tiers: dict[str, Any] = {"kv_host_bytes": host, "kv_disk_bytes": disk, "kv_disk_path": folder if disk else ""}
        for _ in range(2):
            runner = FakeRunner(block_count=least_blocks(requests, block_size) + spare, block_size=block_size)
            with engine_over(runner, Speculation(Guesser(lies), FixedPrice(0.1)) if lies else None, **tiers) as engine:
                sinks = {r.request_id: Collector(r.sequence_count) for r in requests}
                for request, step in list(zip(requests, arrivals, strict=False))[1:]:
                    at_step(runner, step, partial(engine.submit, request, sinks[request.request_id]))
                engine.submit(requests[0], sinks["0"])
                sinks["0"].wait()
                engine.drain(time.monotonic() + 60)
                runner.before_step = lambda step: None
                for request in requests:
                    if sinks[request.request_id].end is None:  # the engine fell idle before its step came
                        engine.submit(request, sinks[request.request_id])
                for request in requests:
                    check(request, sinks[request.request_id])
            assert not any(sink.late for sink in sinks.values())
            files = sorted(Path(folder).rglob("*.kv"))
            assert sum(path.stat().st_size for path in files) <= disk
            assert len(list(Path(folder).rglob("*"))) - len(files) <= 1 + 256  # no scratch
            for which, how in damages[: len(files) and len(damages)]:
                damage(files[which % len(files)], how, files[how % len(files)].read_bytes())


@st.composite
def _beams_and_several(draw: st.DrawFn) -> list[GenerateRequest]:
    """At least one beam search or one request of several sequences; prompts that begin alike."""
    numbers = range(draw(st.integers(1, 4)))
    found: list[GenerateRequest] = []
    for number in numbers:
        if draw(st.booleans()):
            found.append(draw(searches(str(number))))
        else:
            several = replace(draw(requests_of(str(number))), sequence_count=draw(st.integers(2, 4)), resume_ids=())
            found.append(several)
    head = tuple(draw(st.lists(st.integers(0, 1), max_size=12)))
    return [replace(request, prompt_ids=head + request.prompt_ids) for request in found]


@given(
    requests=_beams_and_several(),
    block_size=st.integers(1, 5),
    spare=st.integers(0, 8),
    host=st.sampled_from([0, 200, 1 << 20]),
    disk=st.sampled_from([0, 1000, 1 << 20]),
    dear=st.booleans(),
)
def test_beams_and_several_sequences_are_those_of_the_plain_loop_too(
    requests: list[GenerateRequest], block_size: int, spare: int, host: int, disk: int, dear: bool
) -> None:
    """Blocks that several share, are copied, given up and loaded again; a restart over the same folder between."""
    places = {r.request_id: r.beam.width if r.beam else 1 for r in requests}
    most = max(places[r.request_id] * -(-(len(r.prompt_ids) + r.max_tokens) // block_size) for r in requests)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_costs, "_GUESSED_PREFILL_SECONDS", 60.0 if dear else 0.002)
        tiers: dict[str, Any] = {"kv_host_bytes": host, "kv_disk_bytes": disk, "kv_disk_path": folder if disk else ""}
        for _ in range(2):
            with engine_over(FakeRunner(block_count=most + spare, block_size=block_size), **tiers) as engine:
                sinks = [Collector(request.sequence_count) for request in requests]
                for request, sink in zip(requests, sinks, strict=True):
                    engine.submit(request, sink)
                for request, sink in zip(requests, sinks, strict=True):
                    if request.beam is None:
                        check(request, sink)
                    else:
                        sink.finished()
                        found = [(sink.streams[index], sink.ends[index].reason) for index in sorted(sink.ends)]
                        assert found == Search(request).run()
            assert not any(sink.late for sink in sinks)


@pytest.mark.usefixtures("dear_prefill")
def test_a_restarted_engine_knows_what_the_last_one_knew(tmp_path: Path) -> None:
    cached, stats = life(tmp_path, PROMPT)
    assert (cached, stats.store_loads, stats.store_misses) == ([0], 0, 1)
    assert stats.disk_blocks == 5  # 22 tokens were computed
    cached, stats = life(tmp_path, PROMPT, replace(PROMPT, request_id="again"))
    assert cached == [16, 16]  # from disk, then from the pool
    assert (stats.store_hits, stats.store_loads, stats.prefix_tokens_hit) == (4, 4, 32)
    assert (stats.store_errors, stats.disk_off) == (0, 0)


@pytest.mark.usefixtures("dear_prefill")
def test_another_salt_another_key_and_other_knobs_find_nothing(tmp_path: Path) -> None:
    life(tmp_path, PROMPT)
    assert life(tmp_path, replace(PROMPT, cache_salt="mine"))[0] == [0]
    assert life(tmp_path, PROMPT, kv_cache_precision="f16")[0] == [0]
    assert life(tmp_path, PROMPT, inference_precision="f32")[0] == [0]
    serving = ServingConfig(max_running=8, max_num_tokens=16, **on_disk(tmp_path))
    for identity in ({"weights": "other"}, {"openvino": "other"}):
        engine = PagedEngine(FakeRunner(block_count=100), serving, context_length=CONTEXT, identity=identity)
        (sink,) = run(engine, PROMPT)
        engine.close()
        assert sink.finished().usage.cached_prompt_tokens == 0
    other = FakeRunner(block_count=100, block_size=2)
    with engine_over(other, **on_disk(tmp_path)) as engine:
        assert run(engine, PROMPT)[0].finished().usage.cached_prompt_tokens == 0
    assert life(tmp_path, PROMPT)[0] == [16]


@pytest.mark.usefixtures("dear_prefill")
def test_without_a_prefix_cache_nothing_is_stored(tmp_path: Path) -> None:
    life(tmp_path, PROMPT, prefix_cache=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("dear_prefill")
@pytest.mark.parametrize("lost", range(4))
def test_a_damaged_block_ends_the_match_before_it(tmp_path: Path, lost: int) -> None:
    life(tmp_path, PROMPT)
    written = sorted(tmp_path.rglob("*.kv"), key=lambda path: path.stat().st_mtime_ns)
    written[lost].write_bytes(b"nonsense")
    cached, stats = life(tmp_path, PROMPT)
    assert cached == [4 * lost]
    assert stats.store_errors == 1
    assert life(tmp_path, PROMPT)[0] == [16]  # computed and written again


@pytest.mark.usefixtures("dear_prefill")
def test_blocks_pushed_out_of_the_pool_come_back_from_host_memory() -> None:
    others = [GenerateRequest(str(n), (100 + n,) * 17, 3) for n in range(3)]
    with engine_over(FakeRunner(block_count=8), kv_host_bytes=1 << 20) as engine:
        run(engine, PROMPT)
        for other in others:
            run(engine, other)
        (sink,) = run(engine, replace(PROMPT, request_id="again"))
        stats = engine.stats()
    assert sink.finished().usage.cached_prompt_tokens == 16
    assert stats.offloads >= stats.host_blocks >= 4
    assert (stats.store_loads, stats.disk_blocks) == (4, 0)


@pytest.mark.usefixtures("dear_prefill")
def test_preempted_blocks_are_offloaded_and_not_computed_again() -> None:
    requests = [GenerateRequest(str(n), (n, n + 1, n + 2), 30) for n in range(6)]

    def tokens_computed(**serving: Any) -> tuple[int, EngineStats]:
        runner, computed = FakeRunner(block_count=10), [0]
        forward = runner.forward
        runner.forward = lambda batch: computed.append(len(batch.token_ids)) or forward(batch)  # type: ignore[func-returns-value,method-assign]
        with engine_over(runner, **serving) as engine:
            run_together(engine, runner, requests)
        return sum(computed), engine.stats()

    without, stats = tokens_computed()
    assert stats.preemptions > 0
    within, stats = tokens_computed(kv_host_bytes=1 << 20)
    assert stats.preemptions > 0
    assert stats.store_loads > 0
    assert within < without


@pytest.mark.usefixtures("dear_prefill")
def test_dear_loading_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoadCosts, "copy_pays", lambda self: False)
    with engine_over(FakeRunner(block_count=8), kv_host_bytes=1 << 20) as engine:
        run(engine, PROMPT, GenerateRequest("y", (9,) * 17, 3))
        run(engine, replace(PROMPT, request_id="again"))
        assert (engine.stats().offloads, engine.stats().store_loads) == (0, 0)


@pytest.mark.usefixtures("dear_prefill")
def test_two_engines_share_a_folder(tmp_path: Path) -> None:
    prompts = [GenerateRequest(str(n), (*range(n, n + 17),), 6) for n in range(10)]
    knobs = on_disk(tmp_path, kv_disk_bytes=30 * FILE)
    with engine_over(FakeRunner(block_count=8), **knobs) as one, engine_over(FakeRunner(block_count=8), **knobs) as two:
        for first, second in zip(prompts, reversed(prompts), strict=True):
            sinks = [Collector(), Collector()]
            one.submit(first, sinks[0])
            two.submit(second, sinks[1])
            check(first, sinks[0])
            check(second, sinks[1])
    for engine in (one, two):
        assert (engine.stats().store_errors, engine.stats().disk_off) == (0, 0)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.kv")) <= 32 * FILE


class _Stuck:
    """Stands before KvFiles.read and holds it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        read = KvFiles.read

        def slow(files: KvFiles, digest: bytes) -> memoryview | None:
            self.begun.set()
            assert self.go_on.wait(60)
            return read(files, digest)

        monkeypatch.setattr(KvFiles, "read", slow)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Stuck]:
    stuck = _Stuck(monkeypatch)
    yield stuck
    stuck.go_on.set()


def test_a_disk_that_hangs_costs_no_more_than_computing(tmp_path: Path, stuck: _Stuck) -> None:
    life(tmp_path, PROMPT)
    with engine_over(FakeRunner(block_count=100), **on_disk(tmp_path)) as engine:
        (sink,) = run(engine, PROMPT)  # while nothing is read
        assert stuck.begun.is_set()
        assert sink.finished().usage.cached_prompt_tokens == 0
        stuck.go_on.set()


@pytest.mark.usefixtures("dear_prefill")
def test_who_waits_for_a_disk_holds_up_nobody_and_can_leave(tmp_path: Path, stuck: _Stuck) -> None:
    life(tmp_path, PROMPT)
    with engine_over(FakeRunner(block_count=100), max_running=8, **on_disk(tmp_path)) as engine:
        waiting, leaving = Collector(), Collector()
        engine.submit(PROMPT, waiting)
        assert stuck.begun.wait(60)
        engine.submit(replace(PROMPT, request_id="leaver"), leaving)
        run(engine, GenerateRequest("other", (7,) * 9, 4))
        engine.cancel("leaver")
        assert leaving.finished().reason == "cancelled"
        assert (engine.stats().waiting, waiting.end) == (1, None)
        stuck.go_on.set()
        check(PROMPT, waiting)
        assert waiting.finished().usage.cached_prompt_tokens == 16


@pytest.mark.usefixtures("dear_prefill")
def test_a_drain_at_its_deadline_does_not_wait_for_a_disk(tmp_path: Path, stuck: _Stuck) -> None:
    life(tmp_path, PROMPT)
    with engine_over(FakeRunner(block_count=100), **on_disk(tmp_path)) as engine:
        sink = Collector()
        engine.submit(PROMPT, sink)
        assert stuck.begun.wait(60)
        engine.drain(0.0)
        assert sink.finished().reason == "cancelled"
        stuck.go_on.set()


def test_a_folder_that_cannot_be_made_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        cached, stats = life(tmp_path / "file" / "kv", PROMPT, replace(PROMPT, request_id="again"))
    assert cached == [0, 16]
    assert (stats.disk_off, stats.store_errors, stats.disk_blocks) == (1, 1, 0)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "serving goes on" in caplog.text


_FULL_DISK = """
import logging, resource, sys
from pathlib import Path
from tests.unit.python_llm.engines.paged.test_kv_store import PROMPT, life
logging.basicConfig(stream=sys.stderr)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
more = [PROMPT.__class__(str(n), (n,) * 17, 3) for n in range(4)]
print(life(Path(sys.argv[1]), PROMPT, *more, blocks=8)[1])
"""


def test_a_full_disk_ends_writing_and_nothing_else(tmp_path: Path) -> None:
    root = Path(__file__).parents[5]
    paths = os.pathsep.join(map(str, (root, root / "tests" / "fakes")))
    command = [sys.executable, "-c", _FULL_DISK, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=root, env=environment)
    assert done.returncode == 0, done.stderr
    assert "store_errors=1, disk_off=1" in done.stdout
    assert done.stderr.count("serving goes on") == done.stderr.count("WARNING") == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
