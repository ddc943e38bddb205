"""The arithmetic of one GPU's memory: known figures, and laws that hold for any model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_engines.plan.formats import FORMATS, KV_FORMATS
from build_engines.plan.memory import BLOCK, Layout, kv_token_bytes, memory_of, stage_weights, weight_bytes
from build_engines.plan.model_numbers import ModelNumbers
from build_engines.plan.parts import parameters
from tests.unit.build_engines.plan.models import PARAMETERS, model_of


@pytest.mark.parametrize("name", PARAMETERS)
def test_one_rank_of_16_bits_is_twice_the_parameters(name: str) -> None:
    assert weight_bytes(model_of(name), Layout()) == 2 * PARAMETERS[name]


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("quant", FORMATS)
def test_fewer_bits_are_their_share_of_the_matrices(name: str, quant: str) -> None:
    """Embeddings, last layer, norms and biases stay at 16 bits; scales add 4 % at most, or a 16th block's 12.5 %."""
    model = model_of(name)
    inner = PARAMETERS[name] - 2 * model.vocab * model.hidden
    outer = 2 * 2 * model.vocab * model.hidden
    bits = FORMATS[quant].bits
    size = weight_bytes(model, Layout(quant=quant)) - outer
    assert inner * bits / 8 <= size <= inner * bits / 8 * (1.13 if quant == "nvfp4" else 1.05)


def test_known_weights() -> None:
    """By hand: 70B in groups of 128 is 4.125 bits of 68.45e9 inner weights, and 4.2 GB of embeddings and last layer."""
    assert weight_bytes(model_of("llama-3.1-70b"), Layout(quant="int4_awq")) / 1e9 == pytest.approx(39.5, abs=0.1)
    assert weight_bytes(model_of("llama-3.1-8b"), Layout(quant="fp8")) / 1e9 == pytest.approx(9.08, abs=0.01)


def test_known_kv() -> None:
    """By hand: 2 x 32 layers x 8 heads x 128 x 2 bytes; GPT-NeoX has every head's own."""
    assert kv_token_bytes(model_of("llama-3.1-8b"), Layout()) == 131_072
    assert kv_token_bytes(model_of("llama-3.1-8b"), Layout(kv="fp8")) == 65_536
    assert kv_token_bytes(model_of("llama-3.1-70b"), Layout(tp=8)) == 40_960
    assert kv_token_bytes(model_of("llama-3.1-70b"), Layout(tp=16)) == 40_960  # eight heads cannot lie on 16 ranks
    assert kv_token_bytes(model_of("gpt-neox-20b"), Layout()) == 2 * 44 * 6144 * 2


def test_blocks_and_sequences() -> None:
    memory = memory_of(model_of("llama-3.1-8b"), Layout(quant="fp8"), 80 * 10**9)
    assert memory.blocks == memory.kv // (memory.kv_token * BLOCK)
    assert memory.sequences(BLOCK) == memory.blocks
    assert memory.sequences(BLOCK + 1) == memory.blocks // 2
    assert memory.free + memory.weights + memory.activations + memory.reserve == memory.total


models = st.builds(
    lambda kv, group, dim, layers, wide, vocab, experts, gated, tied: ModelNumbers(
        family="numbers",
        layers=layers,
        hidden=kv * group * dim,
        heads=kv * group,
        kv_heads=kv,
        head_dim=dim,
        intermediate=wide * 128,
        vocab=vocab,
        context=4096,
        gated=gated,
        tied=tied,
        experts=experts,
        experts_per_token=min(experts, 2),
    ),
    st.sampled_from((1, 2, 4, 8)),
    st.integers(1, 8),
    st.sampled_from((64, 128)),
    st.integers(1, 24),
    st.integers(1, 40),
    st.integers(100, 60_000),
    st.sampled_from((0, 4)),
    st.booleans(),
    st.booleans(),
)
layouts = st.builds(
    lambda quant, kv, tp, pp, sharded: Layout(quant=quant, kv=kv, tp=tp, pp=pp, embedding_sharded=sharded),
    st.sampled_from(sorted(FORMATS)),
    st.sampled_from(sorted(KV_FORMATS)),
    st.integers(1, 8),
    st.integers(1, 8),
    st.booleans(),
)


@given(models, layouts)
def test_more_tp_is_never_more_a_rank(model: ModelNumbers, layout: Layout) -> None:
    more = replace(layout, tp=layout.tp + 1)
    assert weight_bytes(model, more) <= weight_bytes(model, layout)
    assert kv_token_bytes(model, more) <= kv_token_bytes(model, layout)


@given(models, layouts)
def test_more_stages_hold_no_more_layers_each(model: ModelNumbers, layout: Layout) -> None:
    """Where the ends are not tied; a tied last layer is copied to the last stage."""
    model, more = replace(model, tied=False), replace(layout, pp=layout.pp + 1)
    assert weight_bytes(model, more) <= weight_bytes(model, layout)
    assert kv_token_bytes(model, more) <= kv_token_bytes(model, layout)


@given(models, layouts)
def test_fewer_bits_are_never_more_bytes(model: ModelNumbers, layout: Layout) -> None:
    sizes = {name: weight_bytes(model, replace(layout, quant=name)) for name in FORMATS}
    for one, row in FORMATS.items():
        for other, finer in FORMATS.items():
            if row.bits < finer.bits:
                assert sizes[one] <= sizes[other], (one, other)


@given(models, st.integers(1, 8))
def test_the_ranks_hold_the_model_and_no_less(model: ModelNumbers, pp: int) -> None:
    total = sum(stage_weights(model, Layout(pp=pp)))
    assert total >= 2 * parameters(model)
    if pp == 1:
        assert total == 2 * parameters(model)


@given(models, layouts, st.integers(1, 200), st.integers(1, 4096))
def test_a_larger_gpu_holds_no_fewer_sequences(
    model: ModelNumbers, layout: Layout, gigabytes: int, length: int
) -> None:
    small = memory_of(model, layout, gigabytes * 10**9)
    large = memory_of(model, layout, (gigabytes + 8) * 10**9)
    assert large.sequences(length) >= small.sequences(length) >= large.sequences(length + 1) - large.blocks
    assert small.sequences(length) >= small.sequences(length + 1)
