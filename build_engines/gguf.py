"""GGUF import: the weights are dequantised into a Hugging Face folder; the tokenizer is made by gguf_tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError
from build_engines.gguf_config import correct_config, unread_tensors
from build_engines.gguf_parts import join_parts
from build_engines.quiet import quiet_transformers

__all__ = ["ARCHITECTURES", "check_gguf", "gguf_licence", "import_gguf", "read_metadata"]

# Those whose import is held to llama.cpp's own logits by a test; transformers reads some more, a few of them wrongly.
ARCHITECTURES = ("llama", "qwen2", "qwen3", "phi3", "gemma3", "gpt2", "starcoder2", "stablelm", "nemotron")
_MAGIC = b"GGUF"
# What reading a cut or damaged file raises inside the gguf package, which checks nothing itself.
_READ_ERRORS = (ValueError, IndexError, KeyError, OverflowError, TypeError, EOFError, MemoryError)


def check_gguf(path: Path) -> None:
    """Check the name, the magic, and that every tensor lies inside the file. A later part may hold no metadata.

    Raises:
        CheckpointError: the file is missing, is no GGUF, or is cut.
    """
    if not path.is_file():
        raise CheckpointError(f"model '{path}': no such file; check the path.")
    with path.open("rb") as stream:
        magic = stream.read(4)
    if magic != _MAGIC or path.suffix != ".gguf":
        raise CheckpointError(
            f"model '{path}': no GGUF file (its name must end in .gguf and its first bytes must be GGUF); give a GGUF "
            "file, or the folder of a Hugging Face checkpoint."
        )
    reader = _reader(path)
    size = path.stat().st_size
    end = max((int(tensor.data_offset) + int(tensor.n_bytes) for tensor in reader.tensors), default=0)
    if not reader.tensors or end > size:
        raise _damaged(path, f"{size} bytes where its tensors end at {end}" if end else "no tensors")


def read_metadata(path: Path) -> Mapping[str, Any]:
    """Every key-value pair of the file, as Python values."""
    return {name: field.contents() for name, field in _reader(path).fields.items()}


def gguf_licence(path: Path) -> str:
    field = _reader(path).fields.get("general.license")
    return str(field.contents()) if field is not None else "unknown"


def import_gguf(parts: tuple[Path, ...], folder: Path) -> None:
    """Write ``folder``: config.json, model.safetensors in fp32, the tokenizer, generation_config.json.

    Raises:
        CheckpointError: an architecture, a quantisation or a tokenizer that cannot be imported.
    """
    if len(parts) == 1:
        _import_whole(parts[0], folder)
        return
    joined = folder.with_name(f"{folder.name}-joined.gguf")
    try:
        join_parts(parts, joined)
        _import_whole(joined, folder)
    finally:
        joined.unlink(missing_ok=True)


def _import_whole(path: Path, folder: Path) -> None:
    from build_engines.gguf_tokenizer import read_vocabulary, write_tokenizer

    metadata = read_metadata(path)
    _check_architecture(path, metadata)
    vocabulary = read_vocabulary(metadata, str(path))
    folder.mkdir(parents=True, exist_ok=True)
    _save_model(path, folder)
    write_tokenizer(vocabulary, folder)
    named = {
        "bos_token_id": vocabulary.bos_id,
        "eos_token_id": list(vocabulary.end_ids) or None,
        "pad_token_id": vocabulary.pad_id,
    }
    ids = {key: value for key, value in named.items() if value is not None}
    _merge(folder / "config.json", ids)
    (folder / "generation_config.json").write_text(json.dumps(ids, indent=2) + "\n", "utf-8")


def _check_architecture(path: Path, metadata: Mapping[str, Any]) -> None:
    architecture = str(metadata.get("general.architecture", "unknown"))
    if architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"model '{path}': architecture '{architecture}' cannot be imported from GGUF; give the Hugging Face "
            f"checkpoint of the model, or a GGUF of one of {', '.join(ARCHITECTURES)}."
        )
    if int(metadata.get("split.count", 1)) > 1:
        raise CheckpointError(
            f"model '{path}': one part of several; they must be called NAME-00001-of-0000N.gguf, and so on: rename "
            "them, or join them with gguf-split --merge."
        )


def _save_model(path: Path, folder: Path) -> None:
    with quiet_transformers():
        try:
            _load_model(path).save_pretrained(folder, safe_serialization=True)
        except (ValueError, KeyError, NotImplementedError, RuntimeError, AssertionError) as error:
            raise CheckpointError(
                f"model '{path}': its weights cannot be imported ({error}); give the Hugging Face checkpoint instead."
            ) from error


def _load_model(path: Path) -> Any:
    """The dequantised model; a tensor missing from the file is an error (from_pretrained would fill it at random)."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    reader = _reader(path)
    config = AutoConfig.from_pretrained(str(path.parent), gguf_file=path.name, local_files_only=True)
    config.dtype = torch.float32
    correct_config(config, reader)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, torch_dtype=torch.float32)  # type: ignore[no-untyped-call]
    if unread := unread_tensors(reader, model):
        raise ValueError(f"tensors that transformers does not read: {', '.join(unread[:3])}")
    parsed = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)  # type: ignore[no-untyped-call]
    model = model.to_empty(device="cpu")
    absent = set(model.load_state_dict(parsed["tensors"], strict=False).missing_keys) - set(
        model._tied_weights_keys or ()
    )
    if absent:
        raise ValueError(f"tensors missing: {', '.join(sorted(absent)[:3])}")
    model.tie_weights()
    return model


def _merge(file: Path, values: Mapping[str, Any]) -> None:
    record = {**json.loads(file.read_text("utf-8")), **values}
    file.write_text(json.dumps(record, indent=2) + "\n", "utf-8")


def _reader(path: Path) -> Any:
    from gguf import GGUFReader

    try:
        return GGUFReader(path)
    except _READ_ERRORS as error:
        raise _damaged(path, f"{path.stat().st_size} bytes that end before its contents do ({error})") from error


def _damaged(path: Path, found: str) -> CheckpointError:
    return CheckpointError(f"model '{path}': {found}; the file is truncated or damaged: fetch it again.")
