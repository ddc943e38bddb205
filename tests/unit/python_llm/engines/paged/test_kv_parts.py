"""The store's parts: host memory by last use, what loading costs, the key, the disk's thread, the byte budget."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_runner import FakeRunner
from python_llm.engines.paged import kv_budget
from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.kv_budget import block_count
from python_llm.engines.paged.kv_costs import LoadCosts
from python_llm.engines.paged.kv_disk import KvDisk, ReadJob
from python_llm.engines.paged.kv_files import KvFiles
from python_llm.engines.paged.kv_host import Content, HostBlocks
from python_llm.engines.paged.kv_layout import BlockLayout, key_of
from python_llm.engines.paged.kv_store import KvStore
from python_llm.errors import CallerMistake
from python_llm.machine import free_bytes
from python_llm.settings import ServingConfig


def content_of(number: int) -> Content:
    return {"keys": np.full((1, 2, 3), number, np.float16), "values": np.full((1, 4), number, np.uint8)}


BLOCK_BYTES = 16


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40), st.integers(0, 4))
def test_host_memory_keeps_the_last_used_within_its_cap(uses: list[tuple[int, bool]], blocks: int) -> None:
    host = HostBlocks(blocks * BLOCK_BYTES + BLOCK_BYTES // 2)
    expected: list[int] = []
    for number, put in uses:
        if put:
            host.put(bytes([number]), content_of(number))
        else:
            host.touch([bytes([number])])
        if put or number in expected:
            expected = [*(n for n in expected if n != number), number]
            del expected[: max(0, len(expected) - blocks)]
        assert [n for n in range(6) if bytes([n]) in host] == sorted(expected)
        assert len(host) == len(expected)
    for number in expected:
        found = host.get(bytes([number]))
        assert found is not None
        assert np.array_equal(found["values"], content_of(number)["values"])


def test_the_head_of_a_touched_prefix_is_given_up_last() -> None:
    host = HostBlocks(3 * BLOCK_BYTES)
    for number in (1, 2, 3):
        host.put(bytes([number]), content_of(number))
    host.touch([b"\1", b"\2", b"\3"])
    host.put(b"\4", content_of(4))
    assert [number for number in range(5) if bytes([number]) in host] == [1, 2, 4]


def test_a_block_is_packed_and_unpacked() -> None:
    layout = BlockLayout.of(content_of(7))
    assert layout.nbytes == BLOCK_BYTES
    packed = b"".join(layout.pack(content_of(7)))
    unpacked = layout.unpack(memoryview(packed))
    for name, array in content_of(7).items():
        assert (unpacked[name].dtype, unpacked[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(unpacked[name], array)
    with pytest.raises(ValueError, match="15 bytes; it must have 16"):
        layout.unpack(memoryview(packed[1:]))


def test_the_key_is_another_for_any_other_fact() -> None:
    layout = BlockLayout.of(content_of(0))
    shape = BlockLayout.of({**content_of(0), "values": np.zeros((1, 2, 2), np.uint8)})
    dtype = BlockLayout.of({**content_of(0), "values": np.zeros((1, 4), np.int8)})
    name = BlockLayout.of({"k": content_of(0)["keys"], "values": content_of(0)["values"]})
    facts = {"weights": {"a": "1"}, "openvino": "1"}
    keys = [key_of(facts, each) for each in (layout, shape, dtype, name)]
    keys += [key_of({**facts, "weights": {"a": "2"}}, layout), key_of({**facts, "openvino": "2"}, layout)]
    assert len(set(keys)) == 6
    assert key_of(dict(reversed(facts.items())), layout) == keys[0]


def test_loading_is_chosen_where_it_was_cheaper() -> None:
    costs = LoadCosts(block_size=10)
    assert costs.copy_pays()  # never measured: tried
    costs.copy.learn(0.5)
    assert not costs.copy_pays()  # 10 tokens are guessed at 2 ms each
    costs.learn_step(prompt_tokens=100, tokens=100, seconds=10.0)
    assert costs.compute_seconds(1) == pytest.approx(1.0)
    assert costs.copy_pays()
    costs.read.learn(0.6)
    assert not costs.read_pays()  # 0.6 to read, and 0.45 to copy
    costs.read.learn(0.1)  # the mean follows
    assert costs.read_pays()


def test_decoding_steps_say_nothing_of_prefill() -> None:
    costs = LoadCosts(block_size=10)
    costs.learn_step(prompt_tokens=0, tokens=64, seconds=9.0)
    costs.learn_step(prompt_tokens=15, tokens=64, seconds=9.0)
    assert costs.prefill.value is None
    costs.learn_step(prompt_tokens=16, tokens=32, seconds=3.2)
    assert costs.prefill.value == pytest.approx(0.1)


def test_what_was_dear_once_is_tried_again() -> None:
    costs = LoadCosts(block_size=10)
    costs.learn_step(100, 100, 1.0)
    costs.copy.learn(0.5)
    refused = 0
    while not costs.copy_pays():
        refused += 1
        assert refused < 100
    assert refused > 10


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_store_measures_what_loading_takes() -> None:
    clock, runner, pool = _Clock(), FakeRunner(block_count=8), BlockPool(8)
    store = KvStore(runner, pool, ServingConfig(kv_host_bytes=1 << 20), {}, clock=clock)
    importing = runner.import_blocks

    def slow(blocks: Sequence[int], content: Content) -> None:
        clock.now += 1.0 * len(blocks)
        importing(blocks, content)

    runner.import_blocks = slow  # type: ignore[method-assign]
    for number in range(3):
        block = pool.allocate()
        pool.remember(block, bytes([number]))
        pool.release([block])
    while pool.known_count:
        pool.allocate()
    contents = store.found([b"\0", b"\1", b"\2", b"\3"])
    assert len(contents) == 3
    store.fill([0, 1, 2], contents)
    assert store.costs.copy.value == 1.0
    assert store.found([b"\0"]) == []  # a block of 4 tokens is guessed at 8 ms
    store.computed(16, 16, 16.0)
    assert len(store.found([b"\0", b"?"])) == 1
    assert store.figures() == {
        "host_blocks": 3,
        "disk_blocks": 0,
        "store_hits": 5,
        "store_misses": 0,
        "store_loads": 3,
        "offloads": 3,
        "store_errors": 0,
        "disk_off": 0,
    }


def test_a_full_queue_drops_and_never_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    write = KvFiles.write

    def slow(files: KvFiles, digest: bytes, content: list[memoryview]) -> None:
        begun.set()
        assert go_on.wait(60)
        write(files, digest, content)

    monkeypatch.setattr(KvFiles, "write", slow)
    layout = BlockLayout.of(content_of(0))
    files = KvFiles(tmp_path, bytes(32), 1 << 20, block_bytes=layout.nbytes)
    disk = KvDisk(files, layout, HostBlocks(0), LoadCosts(4), lambda: None)
    taken = [disk.write(number.to_bytes(16, "big"), content_of(number)) for number in range(100)]
    assert taken == [True] * 64 + [False] * 36
    assert begun.wait(60)
    go_on.set()
    disk.close(disk._clock() + 60)
    assert len(files) == 64
    assert not disk.write(bytes(16), content_of(0))  # it is closed


def test_a_thread_that_dies_lets_everybody_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(files: KvFiles, digest: bytes) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(KvFiles, "read", broken)
    layout = BlockLayout.of(content_of(0))
    files = KvFiles(tmp_path, bytes(32), 1 << 20, block_bytes=layout.nbytes)
    disk = KvDisk(files, layout, HostBlocks(0), LoadCosts(4), lambda: None)
    jobs = [ReadJob([bytes(16)], disk._clock() + 600) for _ in range(3)]
    with caplog.at_level(logging.ERROR):
        for job in jobs:
            disk.read(job)
        disk._thread.join(60)
        disk.close(disk._clock() + 60)
    assert all(job.over for job in jobs)
    assert (disk.writable, disk.errors) == (False, 1)


def machine(root: Path, available: int, cgroup: str, files: dict[str, str]) -> Path:
    texts = {
        "proc/meminfo": f"MemTotal: {available + 9} kB\nMemAvailable: {available} kB\n",
        "proc/self/cgroup": cgroup,
        **files,
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_memory_is_what_the_machine_and_every_group_leave(tmp_path: Path) -> None:
    two = "sys/fs/cgroup/a"
    group = {f"{two}/memory.max": "900\n", f"{two}/memory.current": "500\n", f"{two}/memory.stat": "inactive_file 50\n"}
    inner = {f"{two}/b/memory.max": "max\n", f"{two}/b/memory.current": "1\n", f"{two}/b/memory.stat": "anon 1\n"}
    assert free_bytes(machine(tmp_path / "v2", 1, "0::/a/b\n", {**group, **inner})) == 450
    assert free_bytes(machine(tmp_path / "none", 1, "0::/\n", {})) == 1024
    one = "sys/fs/cgroup/memory"
    files = {
        f"{one}/memory.limit_in_bytes": "700\n",
        f"{one}/memory.usage_in_bytes": "800\n",
        f"{one}/memory.stat": "cache 9\ntotal_inactive_file 60\n",
    }
    lines = "9:name=systemd:/\n4:cpu,memory:/not/in/here\n0::/\n"
    assert free_bytes(machine(tmp_path / "v1", 1, lines, files)) == 0
    (tmp_path / "v1" / one / "memory.usage_in_bytes").write_text("600\n")
    assert free_bytes(tmp_path / "v1") == 160


def test_here_some_memory_is_left() -> None:
    assert free_bytes() > 1 << 20


def test_blocks_are_a_share_of_what_is_left_and_no_more_than_can_be_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kv_budget, "free_bytes", lambda: 1_000_000)

    def blocks(context: int, **knobs: int) -> int:
        return block_count(ServingConfig(**knobs), block_bytes=100, block_size=32, context_length=context)  # type: ignore[arg-type]

    assert blocks(1 << 20, kv_cache_bytes=0) == 6000
    assert blocks(33, kv_cache_bytes=0, max_running=10) == 20
    assert blocks(1 << 20, kv_cache_bytes=0, max_running=10, max_sequence_len=64) == 20
    assert blocks(33, kv_cache_bytes=12_345) == 123
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert blocks(33, kv_cache_bytes=2_000_000) == 20_000  # as told, with a word about it
    assert "only 1000000 bytes" in caplog.text
    with pytest.raises(CallerMistake, match=r"kv_cache_bytes 199: one block takes 100 bytes.*at least 200"):
        blocks(33, kv_cache_bytes=199)
