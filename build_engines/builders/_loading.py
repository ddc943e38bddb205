"""Whether configuration and weights are of one model: transformers fills a tensor that is missing at random.

Left alone, a config.json that says a layer too many would become an engine with a layer of noise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError, one_line
from build_engines.progress import Progress
from build_engines.remote_code import code_errors

__all__ = ["LOAD_ERRORS", "check_loads"]

# What transformers raises, and what it runs into, where a configuration contradicts itself or the weights.
LOAD_ERRORS = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)


def check_loads(folder: Path, progress: Progress, *, trusted: bool) -> None:
    """Load the checkpoint once as transformers does. ``trusted``: its own code may run.

    Raises:
        CheckpointError: it cannot be loaded, or lacks a tensor that its configuration asks for.
    """
    found = _load(folder, trusted=trusted)
    missing, unread = sorted(found["missing_keys"]), sorted(found["unexpected_keys"])
    if missing:
        raise CheckpointError(
            f"checkpoint '{folder}': config.json asks for {len(missing)} tensors that its weights lack "
            f"({', '.join(missing[:3])}); they must be of one model: take configuration and weights of one revision."
        )
    if unread:
        progress.note(f"left out: {len(unread)} tensors that the architecture does not use ({', '.join(unread[:3])})")


def _load(folder: Path, *, trusted: bool) -> dict[str, Any]:
    from transformers import AutoModelForCausalLM

    load: Any = AutoModelForCausalLM.from_pretrained
    try:
        with code_errors(folder, trusted=trusted):
            _, found = load(
                str(folder),
                dtype="auto",
                local_files_only=True,
                trust_remote_code=trusted,
                output_loading_info=True,
            )
    except LOAD_ERRORS as error:
        raise CheckpointError(
            f"checkpoint '{folder}': transformers cannot load it ({type(error).__name__}: {one_line(error)}); "
            "config.json and weights must be of one model: take both of one revision."
        ) from error
    result: dict[str, Any] = found
    return result
