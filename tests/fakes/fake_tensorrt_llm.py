"""The fake TensorRT-LLM as an installed library, and artifacts it serves.

The package is ``tests/fakes/tensorrt_llm``. A server finds it, with the metadata of a version, in its working
directory: Triton's stub ignores PYTHONPATH, and has the working directory on its path, as ``python -m`` has.
Nothing in the product knows of it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fake_gpus import install_gpus
from python_llm.artifact import MANIFEST, SCHEMA, FileRecord, Limits, Manifest, ModelFacts, Source, sha256_of

__all__ = [
    "NEW",
    "OLD",
    "PINNED",
    "WITHOUT_ENGINES",
    "machine",
    "make_adapter",
    "make_tensorrt_artifact",
    "version_in_use",
]

OLD, PINNED, NEW, WITHOUT_ENGINES = "1.2.0rc4", "1.2.1", "1.3.0rc2", "1.3.0"
TENSORRT, CAPABILITY = "10.14.1.48", "9.0"
_PACKAGE = Path(__file__).parent / "tensorrt_llm"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def install(site: Path, version: str = PINNED) -> Path:
    """Make ``site`` a folder with the library, and the metadata of what belongs to it."""
    for name, its_version in {"tensorrt_llm": version, "tensorrt": TENSORRT, "xgrammar": "0.1"}.items():
        metadata = site / f"{name}-{its_version}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {its_version}\n", "utf-8")
    (site / "tensorrt_llm").symlink_to(_PACKAGE)
    return site


@contextmanager
def machine(folder: Path, gpus: int) -> Iterator[None]:
    """Servers that start in the block find the library, and GPUs by the word of an nvidia-smi."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(install_gpus(folder / "bin", gpus, capability=CAPABILITY)), prepend=os.pathsep)
        patch.chdir(install(folder / "site"))
        yield


@contextmanager
def version_in_use(version: str, site: Path) -> Iterator[None]:
    """In this process, until the block ends: the next import gets the fake in the shape of ``version``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORRT_LLM_FAKE_VERSION", version)
        patch.syspath_prepend(str(install(site, version)))
        _forget()
        yield
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorrt_llm"]:
        del sys.modules[name]


def make_tensorrt_artifact(
    folder: Path,
    checkpoint: Path,
    *,
    kind: str = "tensorrt_llm-checkpoint",
    script: Mapping[str, Any] | None = None,
    tp: int = 1,
    pp: int = 1,
    version: str = PINNED,
    build: Mapping[str, Any] | None = None,
) -> Path:
    """An artifact of ``kind`` with the checkpoint's tokenizer; ``build`` overrides an engine's build_config.

    ``script``: keys of tensorrt_llm._script.Script.
    """
    folder.mkdir(parents=True)
    for name in _TOKENIZER:
        if (checkpoint / name).is_file():
            shutil.copy(checkpoint / name, folder / name)
    config = json.loads((checkpoint / "config.json").read_text("utf-8"))
    built = {**_build_config(config["max_position_embeddings"]), **(build or {})}
    is_engine = kind == "tensorrt_llm-engine"
    written = _engine_config(config, built, tp, pp, version) if is_engine else config
    (folder / "config.json").write_text(json.dumps(written), "utf-8")
    (folder / "tensorrt_llm_fake.json").write_text(json.dumps(dict(script or {})), "utf-8")
    for rank in range(tp * pp if is_engine else 0):
        (folder / f"rank{rank}.engine").write_bytes(b"engine")
    limits = Limits(*(built[f"max_{name}"] for name in ("batch_size", "input_len", "seq_len", "num_tokens")))
    manifest = Manifest(
        schema=SCHEMA,
        name=folder.name,
        kind=kind,
        content_key="fake",
        source=Source("fake", "", {}, ""),
        model=_facts(checkpoint, config),
        quantisation={"weights": "fp8"},
        files={file.name: FileRecord(file.stat().st_size, sha256_of(file)) for file in sorted(folder.iterdir())},
        builder={"tensorrt_llm": version, "tensorrt": TENSORRT, "compute_capability": CAPABILITY},
        tp=tp,
        pp=pp,
        world_size=tp * pp,
        limits=limits if is_engine else Limits(),
    )
    (folder / MANIFEST).write_text(manifest.to_json(), "utf-8")
    return folder


def make_adapter(folder: Path, rank: int = 8) -> Path:
    """What of a LoRA adapter is read before its weights."""
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank}), "utf-8")
    return folder


def _facts(checkpoint: Path, config: Mapping[str, Any]) -> ModelFacts:
    generation = json.loads((checkpoint / "generation_config.json").read_text("utf-8"))
    return ModelFacts(
        architecture="llama",
        layers=2,
        hidden_size=64,
        heads=4,
        kv_heads=2,
        head_dim=16,
        vocab_size=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        end_token_ids=tuple(generation["eos_token_id"]),
    )


def _build_config(context: int) -> dict[str, Any]:
    return {
        "max_batch_size": 16,
        "max_input_len": context - 1,
        "max_seq_len": context,
        "max_num_tokens": 4096,
        "max_beam_width": 1,
        "gather_context_logits": True,
        "gather_generation_logits": True,
        "plugin_config": {"use_paged_context_fmha": True, "lora_plugin": "auto"},
    }


def _engine_config(
    config: Mapping[str, Any], built: Mapping[str, Any], tp: int, pp: int, version: str
) -> Mapping[str, Any]:
    mapping = {"world_size": tp * pp, "tp_size": tp, "pp_size": pp}
    pretrained = {"architecture": "LlamaForCausalLM", "vocab_size": config["vocab_size"], "mapping": mapping}
    return {"version": version, "pretrained_config": pretrained, "build_config": dict(built)}
