"""Pools grow with the cores, within bounds; what the caller says goes before."""

from __future__ import annotations

import pytest

from triton_launcher.threads import library_threads, server_threads


@pytest.mark.parametrize(
    ("cpus", "http", "grpc", "load"), [(1, 4, 2, 4), (2, 4, 2, 4), (4, 8, 2, 8), (12, 16, 6, 8), (192, 16, 8, 8)]
)
def test_pools_by_cores(cpus: int, http: int, grpc: int, load: int) -> None:
    assert server_threads(cpus) == [
        ("http-thread-count", str(http)),
        ("grpc-infer-thread-count", str(grpc)),
        ("model-load-thread-count", str(load)),
    ]


def test_an_option_that_is_passed_on_is_not_set_twice() -> None:
    names = [name for name, _ in server_threads(2, ["--http-thread-count=9", "--log-verbose=1", "x"])]
    assert names == ["grpc-infer-thread-count", "model-load-thread-count"]


def test_libraries_get_one_thread_unless_the_environment_says_otherwise() -> None:
    made = library_threads({"OMP_NUM_THREADS": "4", "PATH": "/bin"})
    assert made == {
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "4",
        "OPENBLAS_NUM_THREADS": "1",
    }
