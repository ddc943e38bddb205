"""The disk of the KV store fills, and the generator dies over it: nobody notices, and what was stored comes back."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from python_llm.engines.paged.kv_files import KvFiles
from python_llm.prefix_hash import prefix_hashes
from python_llm.settings import ServingConfig
from tests.soak.chaos import UNDER_WAY, BackgroundLoad, Event, assert_whole, restarts_of
from tests.soak.load import run_load
from tests.soak.plan import Plan
from tests.soak.served import TINY, Served, served
from tests.soak.small_disk import NoSmallDisk, fill, small_disk
from tests.soak.verdict import not_once
from tests.soak.wire import Ending

__all__ = ["STORE_EVENTS", "Storing", "storing"]

_DISK_BYTES = 64 << 20
_CAP_BYTES = 48 << 20
_CACHE_BYTES = 64 << 20  # at most
_HEADER_BYTES = 80
_KNOWN = 3  # prompts that are asked before and after
_PROMPT_TOKENS = 512
_VOCABULARY = range(3, 500)


@dataclass
class Storing:
    """A served model with a disk store in ``folder``. ``no_disk``: why that is not a small disk of its own."""

    served: Served
    folder: Path
    ballast: Path
    no_disk: str = ""

    def stats(self) -> Mapping[str, int]:
        found: Mapping[str, int] = self.served.status()["stats"]
        return found

    def ask(self, prompts: list[list[int]]) -> list[Ending]:
        """One after another, greedy; every one answered."""
        values = {"max_tokens": 12, "ignore_eos": True, "return_perf_metrics": True}
        bodies = [{"input_ids": np.array([ids], np.int32), **values} for ids in prompts]
        plans = [Plan(number, "generator", body) for number, body in enumerate(bodies)]
        endings = sorted(run_load(self.served.url, self.served.name, plans, in_flight=1), key=lambda e: e.plan.number)
        wrong = not_once(endings)
        assert not wrong, f"known prompts that did not end once: {wrong}"
        return endings

    def ask_and_store(self, seed: int) -> tuple[list[list[int]], list[Ending]]:
        """Prompts that nobody asked before, their answers, and all their blocks on the disk."""
        draw = random.Random(f"known {seed}")
        prompts = [draw.choices(_VOCABULARY, k=_PROMPT_TOKENS) for _ in range(_KNOWN)]
        answers = self.ask(prompts)
        size = self.stats()["block_size"]
        names = {f"{digest.hex()}.kv" for ids in prompts for digest in prefix_hashes(ids, size)}
        assert len(names) == _KNOWN * (_PROMPT_TOKENS // size)
        wanted: Callable[[], bool] = lambda: names <= {path.name for path in self.folder.rglob("*.kv")}  # noqa: E731
        self.served.server.wait_until(wanted, "the prompts' blocks on the disk")
        return prompts, answers

    def assert_nothing_stale(self) -> int:
        """No scratch file, and every block file is whole; returns how many there are."""
        assert not self.scratch()
        found = 0
        for key in (path for path in self.folder.iterdir() if re.fullmatch("[0-9a-f]{64}", path.name)):
            paths = list(key.rglob("*.kv"))
            block_bytes = max((path.stat().st_size for path in paths), default=_HEADER_BYTES) - _HEADER_BYTES
            files = KvFiles(self.folder, bytes.fromhex(key.name), 1 << 40, block_bytes=block_bytes)
            wrong = [path.name for path in paths if files.read(bytes.fromhex(path.stem)) is None]
            assert not wrong, f"block files that are not whole: {wrong}"
            found += len(paths)
        return found

    def scratch(self) -> list[Path]:
        return list(self.folder.rglob("*.part"))


@contextmanager
def storing(
    folder: Path, artifact: Path, serving: ServingConfig = TINY, *, extra: Sequence[str] = ()
) -> Iterator[Storing]:
    """Serve the artifact with a disk store, on a small disk of its own where this machine lets us mount one.

    Its cache is small: what it gives up goes to the disk.
    """
    with ExitStack() as stack:
        disk, no_disk = folder / "disk", ""
        try:
            stack.enter_context(small_disk(disk, _DISK_BYTES))
        except NoSmallDisk as error:
            no_disk = str(error)
        store = disk / "kv"
        cache = min(serving.kv_cache_bytes, _CACHE_BYTES)
        knobs = replace(serving, kv_cache_bytes=cache, kv_disk_bytes=_CAP_BYTES, kv_disk_path=str(store))
        running = stack.enter_context(served(folder, artifact, knobs, extra=extra))
        yield Storing(running, store, disk / "ballast", no_disk)


def kill_of_the_generator(storing: Storing, seed: int) -> str:
    """The generator dies while it writes: known prompts come from the disk, and say what they said."""
    served = storing.served
    prompts, before = storing.ask_and_store(seed)
    first, restarts = served.server.tritonserver(), restarts_of(served)
    load = BackgroundLoad(served, seed)
    load.await_answers(UNDER_WAY)
    os.kill(Event(signal.SIGKILL, "generator").pid(served), signal.SIGKILL)
    endings = load.finish()
    served.server.wait_until(
        lambda: served.server.tritonserver() not in (0, first) and served.server.is_ready(), "the service back"
    )
    after = storing.ask(prompts)
    assert [ending.ids for ending in after] == [ending.ids for ending in before]
    assert after[0].reused_blocks > 0, "the first known prompt had no beginning"
    loaded = storing.stats()["store_loads"]
    assert loaded > 0, "nothing came from the disk"
    load = BackgroundLoad(served, seed + 1)
    load.await_answers(UNDER_WAY)
    served.server.wait_until(lambda: not storing.scratch(), "what the dead left half written to be gone")
    endings += load.finish()
    wrong = [ending for ending in endings if not ending.left and (ending.ends != 1 or ending.after_the_end)]
    assert not wrong, f"requests without one end: {wrong[:3]}"
    served.wait_until_idle()
    assert assert_whole(served) > restarts
    assert (storing.stats()["store_errors"], storing.stats()["disk_off"]) == (0, 0)
    whole = storing.assert_nothing_stale()
    return f"{len(endings)} requests; {loaded} blocks of known prompts came from disk; {whole} files, all whole"


def full_disk(storing: Storing, seed: int) -> str:
    """No byte is left: writing stops, every request ends; with room and a restart it is written again."""
    served = storing.served
    assert not storing.no_disk, storing.no_disk
    assert storing.stats()["disk_off"] == 0
    first, restarts = served.server.tritonserver(), restarts_of(served)
    load = BackgroundLoad(served, seed)
    load.await_answers(UNDER_WAY)

    def refused() -> bool:
        fill(storing.folder.parent, storing.ballast)  # again: the store removes old files where its own cap asks for it
        return bool(storing.stats()["disk_off"])

    try:
        served.server.wait_until(refused, "the disk's refusal to be noticed")
        load.await_answers(UNDER_WAY)
        endings = load.finish()
        wrong = not_once(endings)
        assert not wrong, f"{len(wrong)} did not end exactly once: {wrong[:3]}"
        served.wait_until_idle()
        assert (served.server.tritonserver(), restarts_of(served)) == (first, restarts), "a restart"
        assert storing.stats()["disk_off"] == 1
        whole = storing.assert_nothing_stale()
    finally:
        storing.ballast.unlink(missing_ok=True)
    os.kill(first, signal.SIGKILL)
    served.server.wait_until(
        lambda: served.server.tritonserver() not in (0, first) and served.server.is_ready(), "the service back"
    )
    storing.ask_and_store(seed)
    assert storing.stats()["disk_off"] == 0
    assert_whole(served)
    return f"{len(endings)} requests, no restart; {whole} files, all whole; with room again it stores"


STORE_EVENTS: Mapping[str, Callable[[Storing, int], str]] = {
    "kill -9 of the generator, with a disk store": kill_of_the_generator,
    "full disk of the store": full_disk,
}
