"""Across nodes: the command that starts one server over them. TensorRT-LLM's own launcher does the work.

``trtllm-llmapi-launch`` runs as one task a rank. Rank 0 runs the command behind it, the server; every other rank is a
worker of the LLM that the server makes. So there is one Triton, on the first node, and no MPI code of ours. Within a
node nothing of this is needed: the library starts its workers itself.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from python_llm.artifact import Manifest
from triton_launcher.errors import LaunchRefused
from triton_launcher.preflight.checks import local_ranks

__all__ = ["LAUNCHED", "Nodes", "missing_nodes"]

LAUNCHED = "TLLM_SPAWN_PROXY_PROCESS"  # trtllm-llmapi-launch sets it for the command it runs


@dataclass(frozen=True)
class Nodes:
    """``world_size`` ranks, ``gpus_per_node`` of them on each node."""

    world_size: int
    gpus_per_node: int

    def __post_init__(self) -> None:
        if self.gpus_per_node < 1 or self.world_size % self.gpus_per_node:
            raise LaunchRefused(
                f"world size {self.world_size}: {self.gpus_per_node} GPUs a node do not divide it; give every node the "
                "same number of GPUs, or build with another TP and PP."
            )

    @property
    def count(self) -> int:
        return self.world_size // self.gpus_per_node

    def command(self, serve: Sequence[str]) -> str:
        """What a Slurm allocation runs; ``serve`` is the serving command of one node."""
        tasks = f"--nodes={self.count} --ntasks={self.world_size} --ntasks-per-node={self.gpus_per_node}"
        return f"srun {tasks} --mpi=pmix trtllm-llmapi-launch {shlex.join(serve)}"

    def mpi_command(self, serve: Sequence[str]) -> str:
        """The same without Slurm, where mpirun knows the hosts."""
        placing = f"-n {self.world_size} --map-by ppr:{self.gpus_per_node}:node"
        return f"mpirun {placing} trtllm-llmapi-launch {shlex.join(serve)}"


def missing_nodes(manifest: Manifest, model: str, environment: Mapping[str, str] | None = None) -> str:
    """What to run instead, where the ranks are on several nodes and this is one of them alone; else empty."""
    found = os.environ if environment is None else environment
    world, here = manifest.world_size, local_ranks(manifest)
    if here == world or found.get(LAUNCHED):
        return ""
    nodes = Nodes(world, here)
    command = nodes.command(["triton-llm", "serve", "--model", model])
    return f"world size {world}: its ranks are on {nodes.count} nodes, this is one; start it over them: {command}"
