"""The paged engine over an ``openvino-ir`` artifact."""

from __future__ import annotations

from dataclasses import replace

from tokenizers import Tokenizer

from python_llm.artifact import Artifact
from python_llm.engines.paged.draft_model import DraftModel
from python_llm.engines.paged.engine import PagedEngine
from python_llm.engines.paged.grammar import GrammarCompiler
from python_llm.engines.paged.huge_pages import use_huge_pages
from python_llm.engines.paged.prompt_lookup import PromptLookup
from python_llm.engines.paged.runners.openvino import PREFILL_TOKENS, OpenVinoRunner
from python_llm.engines.paged.scorer import PagedScorer
from python_llm.engines.paged.speculation import Proposer, Speculation
from python_llm.engines.paged.warm_up import warm_up
from python_llm.errors import CallerMistake
from python_llm.settings import ServingConfig

__all__ = ["load", "load_scorer", "make_proposer"]

_DRAFT_CACHE = 256 << 20  # bytes of a draft model's own KV cache


def load(artifact: Artifact, serving: ServingConfig) -> PagedEngine:
    """The engine factory of artifact kind ``openvino-ir``."""
    facts = artifact.manifest.model
    runner = _runner(artifact, serving)
    warm_up(runner, prompt=PREFILL_TOKENS, context=facts.context_length)
    use_huge_pages()
    grammar = GrammarCompiler(artifact.path / "tokenizer.json", runner.vocab_size, facts.end_token_ids)
    speculation = Speculation(make_proposer(artifact, serving))
    weights = {
        name: record.sha256 for name, record in artifact.manifest.files.items() if name.endswith((".xml", ".bin"))
    }
    return PagedEngine(
        runner,
        serving,
        context_length=facts.context_length,
        grammar=grammar,
        speculation=speculation,
        identity={**runner.identity, "weights": weights, "quantisation": dict(artifact.manifest.quantisation)},
    )


def load_scorer(artifact: Artifact, serving: ServingConfig) -> PagedScorer:
    """The scorer factory of artifact kind ``openvino-ir``."""
    one_form = replace(serving, inference_precision="uniform") if serving.inference_precision == "auto" else serving
    return PagedScorer(_runner(artifact, one_form), chunk=serving.max_num_tokens)


def make_proposer(artifact: Artifact, serving: ServingConfig) -> Proposer | None:
    """What ``serving`` says about guesses; raises CallerMistake for a draft model that does not fit."""
    if serving.speculation == "off":
        return None
    if serving.speculation == "prompt_lookup":
        return PromptLookup()
    draft = Artifact.open((artifact.path / serving.draft_artifact).resolve())
    if draft.manifest.kind != artifact.manifest.kind or _vocabulary(draft) != _vocabulary(artifact):
        raise CallerMistake(
            f"draft_artifact '{draft.path}': it must be of kind {artifact.manifest.kind}, with the tokenizer of "
            f"'{artifact.path}'; build one from a smaller checkpoint of the same family."
        )
    runner = _runner(draft, replace(serving, kv_cache_bytes=_DRAFT_CACHE))
    return DraftModel(runner, max_num_tokens=serving.max_num_tokens)


def _vocabulary(artifact: Artifact) -> dict[str, int]:
    vocabulary: dict[str, int] = Tokenizer.from_file(str(artifact.path / "tokenizer.json")).get_vocab()
    return vocabulary


def _runner(artifact: Artifact, serving: ServingConfig) -> OpenVinoRunner:
    quantised = artifact.manifest.quantisation.get("weights") in ("int8", "int4")
    context = artifact.manifest.model.context_length
    return OpenVinoRunner(artifact.path / "openvino_model.xml", serving, quantised=quantised, context_length=context)
