"""Code inside a checkpoint: refused unless asked for knowingly, and then pinned by its sha256.

transformers calls it remote code: `auto_map` of config.json or tokenizer_config.json names classes of Python files
beside the weights, and loading them runs those files with all the rights of the build. Nothing here runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from build_engines.errors import BuildFailure, CheckpointError, one_line
from build_engines.json_files import read_object
from python_llm.errors import CallerMistake

__all__ = ["check_code", "code_errors"]


def check_code(folder: Path, config: Mapping[str, Any], *, trusted: bool) -> tuple[Path, ...]:
    """The Python files that a build of ``folder`` may run: none unless ``trusted``, and none where none is named.

    Raises:
        CheckpointError: the checkpoint needs code of its own and it is not trusted, or that code is not in the folder.
    """
    if not trusted:
        _refuse(folder, config)
        return ()
    named = [*_references(config), *_references(read_object(folder / "tokenizer_config.json"))]
    for reference in named:
        _check_place(folder, reference)
    return tuple(sorted(folder.rglob("*.py"))) if named else ()


@contextmanager
def code_errors(folder: Path, *, trusted: bool) -> Iterator[None]:
    """Code of a checkpoint may raise anything: whatever it raises is the checkpoint's error, not a bug of ours."""
    try:
        yield
    except (CallerMistake, BuildFailure, OSError):
        raise
    except Exception as error:
        if not trusted:
            raise
        raise CheckpointError(
            f"checkpoint '{folder}': with its own code (--trust-remote-code) the build fails "
            f"({type(error).__name__}: {one_line(error)}); install what it asks for, or take a conversion of the "
            "model that needs no code."
        ) from error


def _refuse(folder: Path, config: Mapping[str, Any]) -> None:
    """What transformers has itself needs no code: an auto_map beside it is ignored."""
    if config.get("auto_map") and not _is_native(str(config["model_type"])):
        needs = f"architecture '{config['model_type']}' is code inside the checkpoint (auto_map of config.json)"
    elif not (folder / "tokenizer.json").is_file() and read_object(folder / "tokenizer_config.json").get("auto_map"):
        needs = "its tokenizer is code inside the checkpoint (auto_map of tokenizer_config.json)"
    else:
        return
    raise CheckpointError(
        f"checkpoint '{folder}': {needs}; a build runs no code of a checkpoint unasked: read that code and, if you "
        "trust it, say --trust-remote-code (TRUST_REMOTE_CODE=1), or take a conversion of the model to an "
        "architecture and a tokenizer.json that transformers reads itself."
    )


def _references(record: Mapping[str, Any]) -> list[str]:
    """`module.Class` of each class that an auto_map names; a tokenizer's are a pair, of which one may be null."""
    named = record.get("auto_map")
    if not isinstance(named, dict):
        return []
    values = [value for entry in named.values() for value in (entry if isinstance(entry, list) else [entry])]
    return [str(value) for value in values if value]


def _check_place(folder: Path, reference: str) -> None:
    if "--" in reference:
        raise CheckpointError(
            f"checkpoint '{folder}': auto_map names '{reference}', code of another repository that may change at any "
            "time; only files beside the weights are run: copy them there and take '…--' out of auto_map."
        )
    module = reference.partition(".")[0]
    if not (folder / f"{module}.py").is_file():
        raise CheckpointError(
            f"checkpoint '{folder}': auto_map names '{reference}', and there is no {module}.py; code must lie beside "
            "the weights: fetch the checkpoint again."
        )


def _is_native(model_type: str) -> bool:
    from transformers import CONFIG_MAPPING

    return model_type in CONFIG_MAPPING
