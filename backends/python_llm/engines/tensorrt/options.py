"""From serving knobs and an artifact to the arguments of the library's LLM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from python_llm.artifact import Artifact
from python_llm.engines.tensorrt.adapters import Adapters
from python_llm.engines.tensorrt.api import (
    SPECULATIVE,
    check_options,
    enum_values,
    fields_of,
    is_class,
    plain_type,
    speculative_class,
)
from python_llm.engines.tensorrt.build import Build
from python_llm.engines.tensorrt.library import ARGUMENTS, BACKENDS, Library
from python_llm.errors import CallerMistake
from python_llm.settings import ServingConfig

__all__ = ["Options"]

_DEFAULTS = ServingConfig()
# Arguments that have one truth already.
_ELSEWHERE = {
    **dict.fromkeys(("model", "tokenizer", "tokenizer_mode", "skip_tokenizer_init", "backend"), "the artifact"),
    **dict.fromkeys(("tensor_parallel_size", "pipeline_parallel_size", "build_config", "quant_config"), "the artifact"),
    "max_batch_size": "the knob max_running",
    "max_seq_len": "the knob max_sequence_len",
    "max_num_tokens": "the knob max_num_tokens",
    "enable_lora": "lora_config",
}
# Knobs of the CPU engine: other values than the default would have no effect here.
_WITHOUT_EFFECT = ("kv_cache_precision", "inference_precision", "kv_disk_bytes", "max_itl_ms", "ageing_seconds")
_DRAFT_TOKENS = 4
_NGRAM = 3


@dataclass(frozen=True)
class Options:
    """Checked against the facts; `arguments` makes the library's objects of them."""

    artifact: Artifact
    serving: ServingConfig
    build: Build
    given: Mapping[str, Any] = field(default_factory=dict)  # engine_options
    adapters: Adapters = field(default_factory=Adapters)

    @staticmethod
    def read(artifact: Artifact, serving: ServingConfig) -> Options:
        """Raises CallerMistake with everything that does not fit this kind of artifact; imports nothing."""
        backend = BACKENDS[artifact.kind]
        subject = f"engine_options of '{artifact.manifest.name}'"
        given = serving.engine_options
        check_options(given, ARGUMENTS[backend], backend, subject)
        for key in given:
            if key in _ELSEWHERE:
                raise CallerMistake(f"{subject}, key '{key}': {_ELSEWHERE[key]} says it; leave it out.")
        for knob in _WITHOUT_EFFECT:
            if getattr(serving, knob) != getattr(_DEFAULTS, knob):
                raise CallerMistake(
                    f"{knob} {getattr(serving, knob)!r}: {artifact.kind} has no such knob; leave it out, see "
                    "engine_options.kv_cache_config and engine_options.scheduler_config."
                )
        adapters = Adapters.read(given.get("lora_config"), artifact.path, subject)
        options = Options(artifact, serving, Build.read(artifact), given, adapters)
        options._check_backend(subject)
        options._check_speculation()
        return options

    @property
    def backend(self) -> str:
        return BACKENDS[self.artifact.kind]

    @property
    def max_running(self) -> int:
        built = self.artifact.manifest.limits.max_batch_size
        return min(self.serving.max_running, built) if built else self.serving.max_running

    @property
    def max_sequence_len(self) -> int:
        facts, built = self.artifact.manifest.model, self.artifact.manifest.limits.max_seq_len
        bounds = (facts.context_length, built, self.serving.max_sequence_len)
        return min(bound for bound in bounds if bound)

    @property
    def max_input_len(self) -> int:
        """The longest prompt: the build's, and without chunked prefill what one step takes."""
        bounds = [self.artifact.manifest.limits.max_input_len, self.max_sequence_len]
        if not self.chunked_prefill:
            bounds.append(self.max_num_tokens)
        return min(bound for bound in bounds if bound)

    @property
    def max_num_tokens(self) -> int:
        """The default knob is a CPU's step; the library's own (or the build's) is taken for it."""
        built = self.artifact.manifest.limits.max_num_tokens or int(
            fields_of("BaseLlmArgs")["max_num_tokens"]["default"]
        )
        asked = self.serving.max_num_tokens
        return built if asked == _DEFAULTS.max_num_tokens else min(asked, built)

    @property
    def chunked_prefill(self) -> bool:
        return bool(self.given.get("enable_chunked_prefill", self.build.paged_context))

    @property
    def cache_tokens(self) -> int:
        """The KV cache's room where it is asked for in tokens; else the library's, which is not known in advance."""
        return int(self.given.get("kv_cache_config", {}).get("max_tokens") or 1 << 30)

    @property
    def guided_backend(self) -> str:
        return str(self.given.get("guided_decoding_backend") or "")

    @property
    def sampler(self) -> str:
        """Of a checkpoint: the one that knows every parameter, where speculation leaves the choice."""
        chosen = self.given.get("sampler_type", "auto")
        if self.backend == "tensorrt" or (chosen == "auto" and not self.speculates):
            return "TRTLLMSampler"
        return str(chosen)

    @property
    def speculates(self) -> bool:
        return self.serving.speculation != "off" or self.given.get("speculative_config") is not None

    def arguments(self, library: Library) -> dict[str, Any]:
        """Keyword arguments of the library's LLM."""
        manifest, folder = self.artifact.manifest, str(self.artifact.path)
        wanted: dict[str, Any] = {
            "tokenizer": folder,
            "skip_tokenizer_init": not self.guided_backend,
            "tensor_parallel_size": manifest.tp,
            "pipeline_parallel_size": manifest.pp,
            "max_batch_size": self.max_running,
            "max_seq_len": self.max_sequence_len,
            "max_num_tokens": self.max_num_tokens,
            "enable_chunked_prefill": self.chunked_prefill,
            **self._of_the_backend(),
            **self.given,
            "kv_cache_config": {**self._kv_cache(), **self.given.get("kv_cache_config", {})},
        }
        wanted |= self.adapters.arguments()
        speculative = self._speculative()
        if speculative:
            wanted["speculative_config"] = speculative
        name = ARGUMENTS[self.backend]
        library.check_names(name, wanted)
        return {"model": folder, **self._objects(library, name, wanted)}

    def _of_the_backend(self) -> dict[str, Any]:
        if self.backend == "tensorrt":
            return {"gather_generation_logits": self.build.generation_logits}
        return {"enable_iter_perf_stats": True, "sampler_type": self.sampler}

    def _kv_cache(self) -> dict[str, Any]:
        """``kv_cache_bytes`` at its default, a CPU's, is the library's share of the free memory."""
        serving = self.serving
        wanted: dict[str, Any] = {"enable_block_reuse": serving.prefix_cache}
        if serving.kv_cache_bytes not in (0, _DEFAULTS.kv_cache_bytes):
            wanted["max_gpu_total_bytes"] = serving.kv_cache_bytes
        if serving.kv_host_bytes:
            wanted["host_cache_size"] = serving.kv_host_bytes
        return wanted

    def _check_backend(self, subject: str) -> None:
        """What the library asserts of engines, said before it is imported."""
        if self.backend != "tensorrt":
            return
        dtype = self.given.get("kv_cache_config", {}).get("dtype", "auto")
        if dtype != "auto":
            raise CallerMistake(
                f"{subject}, key 'kv_cache_config.dtype': '{dtype}'; an engine's KV precision is decided when it is "
                "built: leave it out, and build with another KV_DTYPE."
            )
        if self.guided_backend == "llguidance":
            raise CallerMistake(
                f"{subject}, key 'guided_decoding_backend': 'llguidance' runs with checkpoints alone; say xgrammar."
            )
        if self.adapters.folders and not self.build.adapters:
            raise CallerMistake(
                f"{subject}, key 'lora_config': the engine was built without LoRA; build it with --max-lora-rank."
            )

    def _check_speculation(self) -> None:
        speculation = self.serving.speculation
        if speculation == "off":
            return
        if self.given.get("speculative_config") is not None:
            raise CallerMistake(
                f"speculation '{speculation}': engine_options.speculative_config says another; keep one."
            )
        if self.backend == "tensorrt":
            raise CallerMistake(
                f"speculation '{speculation}': an engine speculates as it was built; say it in "
                "engine_options.speculative_config (Lookahead, Medusa or Eagle)."
            )
        if speculation == "draft_model" and self._draft().kind != self.artifact.kind:
            raise CallerMistake(
                f"draft_artifact '{self._draft().path}': kind {self._draft().kind}; it must be {self.artifact.kind}."
            )

    def _draft(self) -> Artifact:
        return Artifact.open((self.artifact.path / self.serving.draft_artifact).resolve())

    def _speculative(self) -> dict[str, Any]:
        if self.serving.speculation == "prompt_lookup":
            return {"decoding_type": "NGram", "max_draft_len": _DRAFT_TOKENS, "max_matching_ngram_size": _NGRAM}
        if self.serving.speculation == "draft_model":
            draft = str(self._draft().path)
            return {"decoding_type": "Draft_Target", "max_draft_len": _DRAFT_TOKENS, "speculative_model": draft}
        return {}

    def _objects(self, library: Library, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        fields = fields_of(name)
        return {key: self._object(library, fields[key], value) for key, value in values.items()}

    def _object(self, library: Library, row: Mapping[str, Any], value: Any) -> Any:
        kind = plain_type(row)
        if isinstance(value, Mapping) and (is_class(kind) or kind == SPECULATIVE):
            inner = speculative_class(value, self.backend, "speculative_config") if kind == SPECULATIVE else kind
            chosen = {key: each for key, each in value.items() if key != "decoding_type"}  # the class itself says it
            return library.make(inner, self._objects(library, inner, chosen))
        if enum_values(kind) is not None and value is not None:
            return library.symbol(kind)(value)
        return value
