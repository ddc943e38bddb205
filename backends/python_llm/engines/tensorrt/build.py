"""What an engine was built for, as its config.json says."""

from __future__ import annotations

import json
from dataclasses import dataclass

from python_llm.artifact import Artifact
from python_llm.engines.tensorrt.library import BACKENDS
from python_llm.errors import CallerMistake

__all__ = ["Build"]


@dataclass(frozen=True)
class Build:
    """What an engine was built for; a checkpoint has no such bounds."""

    context_logits: bool = True
    generation_logits: bool = True
    max_beam_width: int = 0
    adapters: bool = True  # LoRA's plugin is in it
    paged_context: bool = True  # what chunked prefill and the reuse of KV blocks need

    @staticmethod
    def read(artifact: Artifact) -> Build:
        if BACKENDS[artifact.kind] != "tensorrt":
            return Build()
        file = artifact.path / "config.json"
        try:
            built = json.loads(file.read_text("utf-8"))["build_config"]
            plugins = built.get("plugin_config") or {}
            return Build(
                context_logits=bool(built.get("gather_context_logits", False)),
                generation_logits=bool(built.get("gather_generation_logits", False)),
                max_beam_width=int(built.get("max_beam_width", 1)),
                adapters=bool(plugins.get("lora_plugin")),
                paged_context=bool(plugins.get("use_paged_context_fmha", True)),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CallerMistake(f"'{file}': {error!r}; an engine has a build_config there: build it again.") from error
