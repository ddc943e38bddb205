"""The paged engine over an ``openvino-ir`` artifact."""

from __future__ import annotations

from python_llm.artifact import Artifact
from python_llm.engines.paged.engine import PagedEngine
from python_llm.engines.paged.grammar import GrammarCompiler
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from python_llm.engines.paged.scorer import PagedScorer
from python_llm.settings import ServingConfig

__all__ = ["load", "load_scorer"]


def load(artifact: Artifact, serving: ServingConfig) -> PagedEngine:
    """The engine factory of artifact kind ``openvino-ir``."""
    facts = artifact.manifest.model
    runner = _runner(artifact, serving)
    grammar = GrammarCompiler(artifact.path / "tokenizer.json", runner.vocab_size, facts.end_token_ids)
    return PagedEngine(runner, serving, context_length=facts.context_length, grammar=grammar)


def load_scorer(artifact: Artifact, serving: ServingConfig) -> PagedScorer:
    """The scorer factory of artifact kind ``openvino-ir``."""
    return PagedScorer(_runner(artifact, serving), chunk=serving.max_num_tokens)


def _runner(artifact: Artifact, serving: ServingConfig) -> OpenVinoRunner:
    quantised = artifact.manifest.quantisation.get("weights") in ("int8", "int4")
    return OpenVinoRunner(artifact.path / "openvino_model.xml", serving, quantised=quantised)
