"""Which architectures OpenVINO's exporter knows, and how it learns one that is a child of one it knows.

An architecture that is code inside a checkpoint has a model_type of its own, which the exporter cannot know. Where its
class is a subclass of a known one (a Llama with another block, say), the inputs, the cache and their names are the
parent's, so the parent's description is given to it; what is traced is the checkpoint's own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError
from build_engines.remote_code import code_errors

__all__ = ["TASK", "base_type", "can_export", "exported_as"]

TASK = "text-generation-with-past"


def can_export(model_type: str) -> bool:
    return TASK in _tasks(model_type)


def base_type(folder: Path, model_type: str) -> str | None:
    """The nearest ancestor of the checkpoint's model class that the exporter knows; None where it knows none.

    Runs the checkpoint's code, which the caller trusts.
    """
    return next((kind for kind in _ancestors(folder) if kind != model_type and can_export(kind)), None)


@contextmanager
def exported_as(model_type: str, base: str | None) -> Iterator[None]:
    """While it lasts the exporter takes ``model_type`` for ``base``; for what it knows itself where there is none."""
    from optimum.exporters.tasks import TasksManager

    known = TasksManager._SUPPORTED_MODEL_TYPE
    if base is None:
        yield
        return
    known[model_type] = known[base]
    try:
        yield
    finally:
        del known[model_type]


def _ancestors(folder: Path) -> list[str]:
    """The model types of the model class' ancestors, nearest first."""
    from transformers import AutoConfig
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    with code_errors(folder, trusted=True):
        config = AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=True)
        reference = (getattr(config, "auto_map", None) or {}).get("AutoModelForCausalLM")
        if reference is None:
            raise CheckpointError(
                f"checkpoint '{folder}': auto_map of config.json names no AutoModelForCausalLM; an engine generates "
                "text: take a model that does."
            )
        model: Any = get_class_from_dynamic_module(reference, str(folder), local_files_only=True)
    configs = (getattr(parent, "config_class", None) for parent in model.__mro__)
    return [str(found.model_type) for found in configs if found is not None]


def _tasks(model_type: str) -> dict[str, Any]:
    import optimum.exporters.openvino  # noqa: F401  (registers what can be exported)
    from optimum.exporters.tasks import TasksManager

    try:
        found: dict[str, Any] = TasksManager.get_supported_tasks_for_model_type(
            model_type, exporter="openvino", library_name="transformers"
        )
    except KeyError:
        return {}
    return found
