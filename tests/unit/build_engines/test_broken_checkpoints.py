"""What bad input gets: one clear error (subject, value, rule, remedy), and nothing half-built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from build_engines.build import build
from build_engines.errors import CheckpointError, SpecError
from build_engines.spec import EngineSpec

INDEX = "model.safetensors.index.json"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def _edit(file: Path, **changes: Any) -> None:
    record = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps({**record, **changes}))


def _shard(folder: Path) -> None:
    """Two shards and their index, as transformers writes them."""
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    for shard, half in zip(SHARDS, halves, strict=True):
        save_file({name: weights[name] for name in half}, folder / shard)
    placed = {name: shard for shard, half in zip(SHARDS, halves, strict=True) for name in half}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    (folder / "model.safetensors").unlink()


def _missing_shard(folder: Path) -> None:
    _shard(folder)
    (folder / SHARDS[1]).unlink()


def _stray_shard(folder: Path) -> None:
    _shard(folder)
    shutil.copy(folder / SHARDS[0], folder / "model-00003-of-00003.safetensors")


def _no_index(folder: Path) -> None:
    _shard(folder)
    (folder / INDEX).unlink()


def _misplaced(folder: Path, change: Callable[[dict[str, str]], object]) -> None:
    _shard(folder)
    placed = json.loads((folder / INDEX).read_text())["weight_map"]
    change(placed)
    (folder / INDEX).write_text(json.dumps({"weight_map": placed}))


def _swap_shard(placed: dict[str, str]) -> None:
    placed["lm_head.weight"] = SHARDS[1]


def _escape(placed: dict[str, str]) -> None:
    placed["lm_head.weight"] = "../secret.safetensors"


def _weights(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _spoil(value: float) -> Callable[[dict[str, Any]], object]:
    def change(weights: dict[str, Any]) -> None:
        weights["model.layers.1.mlp.up_proj.weight"][3, 5] = value

    return change


def _shorten(weights: dict[str, Any]) -> None:
    weights["model.embed_tokens.weight"] = weights["model.embed_tokens.weight"][:500]


def _dtype(folder: Path, name: str) -> None:
    file = folder / "model.safetensors"
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["lm_head.weight"]["dtype"] = name
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def _pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _foreign_tokenizer(folder: Path) -> None:
    record = json.loads((folder / "tokenizer.json").read_text())
    record["model"]["vocab"]["far"] = 99_999
    (folder / "tokenizer.json").write_text(json.dumps(record))


def _slow_code(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    (folder / "vocab.json").write_text("{}")
    _edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["tok.MyTokenizer", None]})


def _settings(folder: Path, **changes: Any) -> None:
    _edit(folder / "tokenizer_config.json", **changes)


def _config(folder: Path, **changes: Any) -> None:
    _edit(folder / "config.json", **changes)


_QUANTISED = [
    (lambda f, m=method: _config(f, quantization_config={"quant_method": m}), [f"quantised ({method})", "original"])
    for method in ("gptq", "awq", "bitsandbytes", "fp8", "compressed-tensors")
]

BROKEN: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "missing shard": (_missing_shard, [f"{SHARDS[1]} missing", "2 shards", "fetch"]),
    "stray shard": (_stray_shard, ["model-00003-of-00003.safetensors", "does not name", "remove"]),
    "shards without index": (_no_index, [SHARDS[0], f"without {INDEX}", "fetch"]),
    "index says another shard": (lambda f: _misplaced(f, _swap_shard), ["'lm_head.weight'", SHARDS[1], "must agree"]),
    "index lacks a tensor": (
        lambda f: _misplaced(f, lambda placed: placed.pop("lm_head.weight")),
        [SHARDS[0], "'lm_head.weight'", "no shard", "must agree"],
    ),
    "index leaves the folder": (lambda f: _misplaced(f, _escape), ["'../secret.safetensors'", "outside the folder"]),
    "NaN": (
        lambda f: _weights(f, _spoil(np.nan)),
        ["model.layers.1.mlp.up_proj.weight", "NaN", "finite", "fetch it again"],
    ),
    "infinity": (lambda f: _weights(f, _spoil(-np.inf)), ["model.layers.1.mlp.up_proj.weight", "infinity", "finite"]),
    "header of another type": (
        lambda f: _dtype(f, "F16"),
        ["'lm_head.weight'", "131072 bytes", "F16", "65536", "damaged"],
    ),
    "header of an unknown type": (lambda f: _dtype(f, "Q4_0"), ["'lm_head.weight'", "'Q4_0'", "F32", "BF16"]),
    "vocabulary beyond the embeddings": (
        lambda f: _weights(f, _shorten),
        ["vocab_size of config.json is 512", "500 rows", "must be equal"],
    ),
    "another model's tokenizer": (_foreign_tokenizer, ["'far'", "99999", "512 embeddings", "another model's"]),
    "template": (
        lambda f: _settings(f, chat_template="{% for m in messages %}{{ m }"),
        ["chat template 'default' does not compile", "line 1", "mend it"],
    ),
    "one template of several": (
        lambda f: _settings(
            f, chat_template=[{"name": "default", "template": "x"}, {"name": "rag", "template": "{% if %}"}]
        ),
        ["chat template 'rag' does not compile"],
    ),
    "unknown rope": (
        lambda f: _config(f, rope_scaling={"rope_type": "spiral", "factor": 2.0}),
        ["'spiral'", "llama3", "mend"],
    ),
    "pickle only": (_pickle_only, ["pytorch_model.bin", "can run code", "safetensors"]),
    "model is code": (
        lambda f: _config(f, model_type="mystery", auto_map={"AutoModelForCausalLM": "model.Mystery"}),
        ["'mystery'", "auto_map", "--trust-remote-code", "conversion"],
    ),
    "tokenizer is code": (_slow_code, ["its tokenizer is code", "--trust-remote-code"]),
    "GPTQ beside": (lambda f: _edit(f / "quantize_config.json", bits=4), ["quantize_config.json", "original weights"]),
    "packed tensors": (
        lambda f: _weights(f, lambda w: w.update({"model.layers.0.mlp.up_proj.qweight": np.zeros((2, 2), np.int32)})),
        ["up_proj.qweight", "GPTQ or AWQ", "original weights"],
    ),
    "fp8 tensors": (lambda f: _fp8(f), ["'lm_head.weight' (F8_E4M3)", "fp8", "original weights"]),
    **{str(parts[0]): (damage, parts) for damage, parts in _QUANTISED},
}


def _fp8(folder: Path) -> None:
    _weights(folder, lambda weights: weights.update({"lm_head.weight": np.zeros((512, 64), np.uint8)}))
    _dtype(folder, "F8_E4M3")


@pytest.mark.parametrize("case", BROKEN)
def test_one_clear_error_and_nothing_half_built(folder: Path, copy_engine: Path, engines: Path, case: str) -> None:
    damage, parts = BROKEN[case]
    damage(folder)
    with pytest.raises(CheckpointError) as caught:
        build(EngineSpec(model=str(folder), name="x", engine="copy", quant="none"), engines)
    text = str(caught.value)
    assert all(part in text for part in [str(folder), *parts]), text
    assert "\n" not in text
    assert not [path for path in engines.glob("*") if path.is_dir()]


def test_int4_groups_that_cannot_divide(folder: Path, engines: Path, tmp_path: Path) -> None:
    spec = EngineSpec(model=str(folder), name="x", quant="int4", group_size=128)  # the hidden size is 64
    with pytest.raises(SpecError) as caught:
        build(spec, engines)
    assert all(part in str(caught.value) for part in ("group_size 128", "64", "choose quant int8"))
    assert not [path for path in engines.glob("*") if path.is_dir()]


def test_an_archive_is_not_unpacked(tmp_path: Path, engines: Path) -> None:
    file = tmp_path / "model.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../escaped.txt", "a member that would leave the folder")
    with pytest.raises(CheckpointError, match=r"model\.zip': an archive.*unpack it yourself"):
        build(EngineSpec(model=str(file), name="x"), engines)
    assert not list(tmp_path.rglob("escaped.txt"))


def test_links_of_the_hubs_cache_are_followed(folder: Path, copy_engine: Path, engines: Path, tmp_path: Path) -> None:
    blob = (folder / "model.safetensors").rename(tmp_path / "blob")
    (folder / "model.safetensors").symlink_to(blob)
    result = build(EngineSpec(model=str(folder), name="x", engine="copy", quant="none"), engines)
    assert not [file for file in result.path.rglob("*") if file.is_symlink()]


# No file may grow beyond 64 KB: what a disk without room does, as every library meets it.
_FULL = """
import resource, signal, sys
from pathlib import Path
from build_engines.build import build
from build_engines.errors import StorageError
from build_engines.spec import EngineSpec
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spec = EngineSpec(model=sys.argv[1], name="x", engine=sys.argv[3], quant="none")
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
try:
    build(spec, Path(sys.argv[2]))
except StorageError as error:
    print(error)
"""


@pytest.mark.parametrize("engine", ["copy", "openvino"])
def test_a_disk_that_fills(tiny: Path, copy_engine: Path, engines: Path, engine: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _FULL, str(tiny), str(engines), engine]
    path = os.pathsep.join([str(copy_engine), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "free some space" in done.stdout, done.stderr
    assert [file.name for file in engines.iterdir()] == [".build-lock"]
