"""An ``echo`` artifact: a real tokenizer around the engine that repeats its prompt."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from python_llm.artifact import MANIFEST, SCHEMA, FileRecord, Manifest, ModelFacts, Source, sha256_of

__all__ = ["make_echo_artifact"]


def make_echo_artifact(folder: Path, checkpoint: Path, *, script: Mapping[str, Any] | None = None) -> Path:
    """Write an artifact of kind ``echo`` with the checkpoint's tokenizer and template.

    ``script``: keys of python_llm.engines.echo.EchoScript (step_seconds, fail_at, stall_at).
    """
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (checkpoint / name).is_file():
            shutil.copy(checkpoint / name, folder / name)
    (folder / "echo.json").write_text(json.dumps(dict(script or {})), "utf-8")
    config = json.loads((checkpoint / "config.json").read_text("utf-8"))
    files = {file.name: FileRecord(file.stat().st_size, sha256_of(file)) for file in sorted(folder.iterdir())}
    facts = ModelFacts(
        architecture="echo",
        layers=0,
        hidden_size=0,
        heads=0,
        kv_heads=0,
        head_dim=0,
        vocab_size=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        end_token_ids=(),
    )
    source = Source(id="echo", revision="", files={}, licence="Apache-2.0")
    manifest = Manifest(SCHEMA, folder.name, "echo", "echo", source, facts, {}, files, {})
    (folder / MANIFEST).write_text(manifest.to_json(), "utf-8")
    return folder
