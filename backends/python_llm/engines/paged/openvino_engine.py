"""The paged engine over an ``openvino-ir`` artifact."""

from __future__ import annotations

from python_llm.artifact import Artifact
from python_llm.engines.paged.engine import PagedEngine
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from python_llm.settings import ServingConfig

__all__ = ["load"]


def load(artifact: Artifact, serving: ServingConfig) -> PagedEngine:
    """The engine factory of artifact kind ``openvino-ir``."""
    quantised = artifact.manifest.quantisation.get("weights") in ("int8", "int4")
    runner = OpenVinoRunner(artifact.path / "openvino_model.xml", serving, quantised=quantised)
    return PagedEngine(runner, serving, context_length=artifact.manifest.model.context_length)
