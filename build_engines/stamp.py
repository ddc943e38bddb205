"""What artifact.json says of an engine for GPUs beside its files: ranks, the GPU, limits and features of the build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from python_llm.artifact import Limits

__all__ = ["Stamp"]


@dataclass(frozen=True, kw_only=True)
class Stamp:
    tp: int = 1
    pp: int = 1
    builder: Mapping[str, str] = field(default_factory=dict)  # versions found in the files, compute capability
    limits: Limits = field(default_factory=Limits)
    features: Mapping[str, Any] = field(default_factory=dict)  # what the build can do; preflight compares with it
