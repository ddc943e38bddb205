"""Which versions of a model Triton is to have: the ``version_policy`` of its config.pbtxt.

Triton's own default is the highest number alone, so that a folder that is only being prepared would be served at the
next start. So the versions are always named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["FIRST", "read_policy", "read_steps", "render_policy"]

FIRST = 1  # the version of an entry that never had another
_POLICY = re.compile(r"^version_policy \{ specific \{ versions: \[ ([\d, ]+) \] \} \}$", re.MULTILINE)
_STEP = re.compile(r"^\s*model_version: (-?\d+)$", re.MULTILINE)


def render_policy(live: Iterable[int]) -> str:
    return f"version_policy {{ specific {{ versions: [ {', '.join(map(str, sorted(live)))} ] }} }}"


def read_policy(config: str) -> tuple[int, ...]:
    """The versions that a config.pbtxt of ours names, rising; empty where it names none, or in a form not ours."""
    found = _POLICY.search(config)
    return tuple(int(number) for number in found[1].split(",")) if found else ()


def read_steps(config: str) -> int:
    """The version of the steps that an ensemble's config.pbtxt names; of one that names none, the first."""
    found = _STEP.search(config)
    return max(int(found[1]), FIRST) if found else FIRST
