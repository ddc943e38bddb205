from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from build_engines.errors import CheckpointError
from build_engines.rope import check_rope, exact_context

SHORT_AND_LONG = {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}


@pytest.mark.parametrize(
    ("config", "context"),
    [
        ({}, 4096),
        ({"rope_scaling": None}, 4096),
        ({"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 1024}}, 4096),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, 4096),  # what it claims is the unstretched length
        ({"rope_scaling": SHORT_AND_LONG, "original_max_position_embeddings": 1024}, 1024),
        ({"rope_scaling": {**SHORT_AND_LONG, "original_max_position_embeddings": 1024}}, 1024),
        ({"rope_scaling": SHORT_AND_LONG}, 4096),
    ],
)
def test_the_context_ends_where_positions_depend_on_the_longest_sequence(config: dict[str, Any], context: int) -> None:
    assert exact_context(SimpleNamespace(**config), 4096) == context


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(CheckpointError) as caught:
        check_rope(Path("some/model"), SimpleNamespace(rope_scaling={"rope_type": "spiral"}))
    assert all(part in str(caught.value) for part in ("some/model", "type 'spiral'", "llama3", "longrope", "mend"))


@pytest.mark.parametrize("kind", ["default", "linear", "dynamic", "yarn", "longrope", "llama3", "mrope"])
def test_known_kinds_pass(kind: str) -> None:
    check_rope(Path("some/model"), SimpleNamespace(rope_scaling={"rope_type": kind}))
