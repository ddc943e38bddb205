"""What a build must have left: config.json and one rankN.engine for each rank, of one build."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.errors import BuildFailure
from build_engines.json_files import read_object
from python_llm.artifact import Limits

__all__ = ["built_limits", "check_ranks", "read_engine", "tidy"]

_RANK = re.compile(r"rank(\d+)\.engine")


def read_engine(output: Path) -> Mapping[str, Any]:
    """The engine's config.json.

    Raises:
        BuildFailure: there is none, or it is no engine's.
    """
    config = read_object(output / "config.json")
    missing = [name for name in ("version", "pretrained_config", "build_config") if name not in config]
    if missing:
        raise BuildFailure(f"engine '{output}': config.json has no {', '.join(missing)}; the build did not end well.")
    return config


def check_ranks(output: Path, tp: int, pp: int) -> None:
    """Every rank's file is there, none more, and the mapping they were built for is the one asked for.

    Raises:
        BuildFailure: ranks that are missing or left over, empty ones, or another mapping.
    """
    mapping = read_engine(output)["pretrained_config"].get("mapping", {})
    found = (mapping.get("tp_size", 1), mapping.get("pp_size", 1), mapping.get("world_size", 1))
    if found != (tp, pp, tp * pp):
        raise BuildFailure(
            f"engine '{output}': built for tp {found[0]}, pp {found[1]}, world size {found[2]}; asked were tp {tp}, pp "
            f"{pp}, world size {tp * pp}: build it again with --force."
        )
    ranks = {int(match[1]) for file in output.iterdir() if (match := _RANK.fullmatch(file.name))}
    wanted = set(range(tp * pp))
    if ranks != wanted:
        wrong = [f"rank{rank}.engine missing" for rank in sorted(wanted - ranks)]
        wrong += [f"rank{rank}.engine of another build" for rank in sorted(ranks - wanted)]
        raise BuildFailure(
            f"engine '{output}': {', '.join(wrong)}; {tp * pp} ranks are due: build it again with --force."
        )
    empty = [rank for rank in sorted(ranks) if not (output / f"rank{rank}.engine").stat().st_size]
    if empty:
        raise BuildFailure(f"engine '{output}': rank{empty[0]}.engine is empty; build it again with --force.")


def built_limits(config: Mapping[str, Any]) -> Limits:
    """The limits as the engine has them, which win over any at run time."""
    build = config["build_config"]
    names = ("max_batch_size", "max_input_len", "max_seq_len", "max_num_tokens")
    return Limits(**{name: int(build.get(name) or 0) for name in names})


def tidy(output: Path) -> None:
    """Drop what a build leaves beside the engine and no run needs: the timing cache."""
    for file in output.glob("*.cache"):
        file.unlink()
