"""Sound checkpoints in the many shapes they come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from build_engines.build import build
from build_engines.checkpoint import locate
from build_engines.facts import end_token_ids
from build_engines.progress import Silent
from build_engines.spec import EngineSpec
from build_engines.template import template_texts
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from python_llm.tokenizer import Tokenizer
from tests.unit.build_engines.architectures import EXACT, paged_logits, reference_logits
from tiny_checkpoint import make_tiny_checkpoint


def _edit(file: Path, **changes: Any) -> None:
    record = {**(json.loads(file.read_text()) if file.is_file() else {}), **changes}
    file.write_text(json.dumps({key: value for key, value in record.items() if value is not None}))


def _shard(folder: Path, dtype: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=getattr(torch, dtype))
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="100KB")


@pytest.mark.parametrize(("dtype", "element"), [("bfloat16", "bf16"), ("float16", "f16")])
def test_half_precision_in_shards_tied_and_padded(tmp_path: Path, dtype: str, element: str) -> None:
    """The weights keep their own precision, and the logits are those of fp32 arithmetic on them."""
    options: dict[str, Any] = {"layers": 1, "tie_word_embeddings": True, "vocab_size": 400, "padded_vocab_size": 448}
    folder = make_tiny_checkpoint(tmp_path / "checkpoint", dtype=dtype, **options)
    _shard(folder, dtype)
    assert len(list(folder.glob("model-*-of-*.safetensors"))) > 1
    spec = EngineSpec(model=str(folder), name="tiny", quant="none", check_quality=False)
    result = build(spec, tmp_path / "engines")
    assert result.manifest.quantisation == {"weights": "none", "format": element}
    assert len(result.manifest.source.files) == len(list(folder.glob("*.safetensors")))
    assert result.manifest.model.vocab_size == 448
    prompts = [np.random.default_rng(0).integers(3, 400, length) for length in (50, 9)]
    runner = OpenVinoRunner(result.path / "openvino_model.xml", EXACT)
    pairs = zip(paged_logits(runner, prompts, 20), reference_logits(folder, prompts), strict=True)
    for found, expected in pairs:
        assert found.shape[1] == 448
        assert np.abs(found - expected).max() <= 1e-3 * np.abs(expected).max()
    assert Tokenizer.load(result.path).token_bytes[447] == b""  # padding has no text


def test_other_safetensors_beside_the_weights_are_not_the_models(folder: Path) -> None:
    (folder / "consolidated.safetensors").write_bytes(b"a second copy in another layout")
    assert [file.name for file in locate(EngineSpec(model=str(folder)), Silent()).weights] == ["model.safetensors"]


def test_code_of_a_checkpoint_is_not_needed_where_transformers_has_the_architecture(folder: Path) -> None:
    _edit(folder / "config.json", auto_map={"AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM"})
    _edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["tok.MyTokenizer", None]})
    assert locate(EngineSpec(model=str(folder)), Silent()).weights


def test_an_added_token_beyond_the_embeddings_is_let_pass(folder: Path) -> None:
    record = json.loads((folder / "tokenizer.json").read_text())
    record["added_tokens"].append({**record["added_tokens"][0], "id": 512, "content": "<image>"})
    (folder / "tokenizer.json").write_text(json.dumps(record))
    assert locate(EngineSpec(model=str(folder)), Silent()).weights


def test_end_tokens_of_a_slow_tokenizer(folder: Path) -> None:
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    for name in ("config.json", "generation_config.json"):
        _edit(folder / name, eos_token_id=None)
    _edit(folder / "tokenizer_config.json", eos_token=None, chat_template=None)
    _edit(folder / "special_tokens_map.json", eos_token={"content": "</turn>"})
    _edit(folder / "added_tokens.json", **{"</turn>": 400})
    assert end_token_ids(folder) == (400,)
    _edit(folder / "special_tokens_map.json", eos_token="<|endoftext|>")
    assert end_token_ids(folder) == (vocabulary["<|endoftext|>"],)


NAMED = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]


@pytest.mark.parametrize(
    ("files", "texts"),
    [
        ({"chat_template.jinja": "J", "chat_template.json": {"chat_template": "F"}}, {"default": "J"}),
        (
            {"chat_template.json": {"chat_template": "F"}, "tokenizer_config.json": {"chat_template": "C"}},
            {"default": "F"},
        ),
        ({"tokenizer_config.json": {"chat_template": "C"}}, {"default": "C"}),
        ({"tokenizer_config.json": {"chat_template": NAMED}}, {"default": "D", "tool_use": "T"}),
        ({"tokenizer_config.json": {"chat_template": {"default": "D"}}}, {"default": "D"}),
        ({"tokenizer_config.json": {}}, {}),
    ],
)
def test_templates_are_found_wherever_they_are(tmp_path: Path, files: dict[str, Any], texts: dict[str, str]) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    assert template_texts(tmp_path) == texts
