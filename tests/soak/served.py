"""The server that is put under load, and what can be read of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from generator_status import generator_answer
from python_llm.contract import generator_model
from python_llm.machine import resident_bytes
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from tests.soak.verdict import NearTies
from tiny_checkpoint import make_tiny_checkpoint
from triton_launcher import processes

__all__ = ["TINY", "Served", "served", "tiny_artifact"]

# Exact arithmetic, and a cache so small that sequences wait for blocks, are preempted, and old prefixes are forgotten.
TINY = ServingConfig(
    max_running=32, kv_cache_bytes=2 << 20, kv_cache_precision="f32", inference_precision="f32", prefix_cache=True
)


@dataclass
class Served:
    """One served model behind a launcher of its own."""

    server: ServerUnderTest
    name: str
    near_ties: NearTies

    @property
    def url(self) -> str:
        return self.server.grpc_url

    def status(self) -> Mapping[str, Any]:
        """The generator's word about itself, by the launcher's own control request."""
        return generator_answer(self.server, generator_model(self.name), "status")

    def wait_until_idle(self) -> None:
        """No request runs or waits, and no KV block is in use."""

        def idle() -> bool:
            status = self.status()
            return not (status["running"] or status["waiting"] or status["stats"]["blocks_used"])

        self.server.wait_until(idle, "no request and no block in use")

    def resident(self) -> dict[str, int]:
        """Bytes that each process of the server holds, by what it is."""
        found = {"tritonserver": resident_bytes(process=self.server.tritonserver())}
        for pid, stub in processes.stubs(self.server.marker).items():
            found[stub.instance] = resident_bytes(process=pid)
        return found


def tiny_artifact(folder: Path) -> Path:
    """An engine of a tiny real checkpoint."""
    checkpoint = make_tiny_checkpoint(folder / "checkpoint")
    spec = EngineSpec(model=str(checkpoint), name="tiny", quant="none", check_quality=False)
    return build(spec, folder / "engines").path


@contextmanager
def served(
    folder: Path, artifact: Path, serving: ServingConfig = TINY, *, extra: Sequence[str] = ()
) -> Iterator[Served]:
    """Serve the artifact as ``tiny`` until the block ends; what is left behind then is an error."""
    add_entry("tiny", artifact, folder / "repository", serving)
    with running_server(folder / "repository", run_dir=folder / "run", extra=extra) as server:
        yield Served(server, "tiny", NearTies(artifact, serving))
