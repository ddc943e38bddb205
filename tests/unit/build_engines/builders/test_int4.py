"""INT4 of a checkpoint whose matrices dominate, as they do in every model of some size."""

from __future__ import annotations

from pathlib import Path

import openvino
import pytest

from build_engines.build import BuildResult, build
from build_engines.builders.openvino import compress_weights
from build_engines.spec import EngineSpec
from tiny_checkpoint import make_tiny_checkpoint


@pytest.mark.parametrize("tied", [False, True])
def test_it_takes_at_most_0_30_of_the_fp16_weights(tied: bool, tmp_path: Path) -> None:
    checkpoint = make_tiny_checkpoint(
        tmp_path / "checkpoint", hidden_size=768, heads=12, kv_heads=4, dtype="float16", tie_word_embeddings=tied
    )
    spec = EngineSpec(model=str(checkpoint), name="tiny", quant="int4", check_quality=False)
    result = build(spec, tmp_path / "engines")
    size = sum(record.size for record in result.manifest.files.values())
    print(f"{size / result.source_size:.3f} of {result.source_size / 1e6:.1f} MB")
    assert size <= 0.30 * result.source_size
    assert result.manifest.quantisation["group_size"] == 128


def test_sensitive_layers_stay_at_8_bits(exported: BuildResult, tmp_path: Path) -> None:
    shares = []
    for ratio in (1.0, 0.8, 0.4):
        spec = EngineSpec(model="m", quant="int4", int4_ratio=ratio)
        record = compress_weights(exported.path / "openvino_model.xml", spec, tmp_path / "openvino_model.xml")
        assert record["int4_ratio"] == ratio
        shares.append(record["int4_share"])
    assert shares[0] > shares[1] > shares[2] > 0


def test_what_is_not_at_4_bits_may_stay_at_16(exported: BuildResult, tmp_path: Path) -> None:
    records, types, sizes = {}, {}, {}
    for rest in ("int8", "fp16"):
        spec = EngineSpec(model="m", quant="int4", int4_ratio=0.4, int4_rest=rest)
        ir = tmp_path / rest / "openvino_model.xml"
        ir.parent.mkdir()
        records[rest] = compress_weights(exported.path / "openvino_model.xml", spec, ir)
        types[rest] = _matrix_types(ir)
        sizes[rest] = ir.with_suffix(".bin").stat().st_size
    assert types == {"int8": {"u4", "u8"}, "fp16": {"u4", "f16"}}  # the checkpoint's fp32 is not kept
    assert records["fp16"] == {**records["int8"], "int4_rest": "fp16"}  # the same layers, the same share
    assert sizes["int8"] < sizes["fp16"]


def _matrix_types(ir: Path) -> set[str]:
    """Element types of the IR's matrices, the embeddings among them."""
    nodes = openvino.Core().read_model(ir).get_ops()
    return {
        str(node.get_element_type().get_type_name())
        for node in nodes
        if node.get_type_name() == "Constant" and len(node.shape) >= 2 and node.shape[-1] >= 16 and node.shape[0] > 1
    }
