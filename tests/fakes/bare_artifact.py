"""An artifact with nothing in it but its manifest and a chat template: what a repository is written from."""

from __future__ import annotations

import json
from pathlib import Path

from python_llm.artifact import MANIFEST, SCHEMA, Limits, Manifest, ModelFacts, Source

__all__ = ["SMOLLM2_CONTEXT", "make_bare_artifact"]

SMOLLM2_CONTEXT = 8192  # tokens


def make_bare_artifact(
    folder: Path, *, context_length: int = SMOLLM2_CONTEXT, max_seq_len: int = 0, template: str = ""
) -> Path:
    """Write it and return ``folder``. ``max_seq_len``: of an engine that was built for less than the model can."""
    folder.mkdir(parents=True)
    facts = ModelFacts("LlamaForCausalLM", 1, 8, 1, 1, 8, 16, context_length, ())
    source = Source(id="bare", revision="", files={}, licence="Apache-2.0")
    limits = Limits(max_seq_len=max_seq_len)
    manifest = Manifest(SCHEMA, folder.name, "openvino-ir", "bare", source, facts, {}, {}, {}, limits=limits)
    (folder / MANIFEST).write_text(manifest.to_json(), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}), "utf-8")
    return folder
