"""How many threads tritonserver and the backend's libraries may start, from the cores they can use.

Most of the cores' time belongs to the engine, which takes a thread per core (``threads`` in the serving knobs). All
others wait more than they work: too few of them make requests queue, too many only take memory. Whoever sets one of
these, as an option behind ``--`` or in the environment, has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["library_threads", "server_threads"]


def server_threads(cpus: int, passed_on: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Options of tritonserver that set its pools, less those that are passed on to it anyway."""
    pools = {
        "http-thread-count": _within(2 * cpus, 4, 16),  # each serves many connections; one that reads a body is busy
        "grpc-infer-thread-count": _within(cpus // 2, 2, 8),  # newer Tritons have it; a thread only hands over
        "model-load-thread-count": _within(2 * cpus, 4, 8),  # a model that loads mostly waits for its process to start
    }
    given = {argument.lstrip("-").partition("=")[0] for argument in passed_on if argument.startswith("--")}
    return [(name, str(count)) for name, count in pools.items() if name not in given]


def library_threads(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for libraries that would start a thread per core in each of the backend's processes."""
    wanted = {
        "TOKENIZERS_PARALLELISM": "false",  # it is for lists of texts; each of ours comes alone
        "RAYON_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",  # numpy's own; OpenVINO has its threads by other means
        "OPENBLAS_NUM_THREADS": "1",
    }
    return {name: environment.get(name, value) for name, value in wanted.items()}


def _within(count: int, fewest: int, most: int) -> int:
    return min(max(count, fewest), most)
