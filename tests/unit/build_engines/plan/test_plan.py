"""Parallelism, ceilings, formats, traps: what a whole plan says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from build_engines.errors import SpecError
from build_engines.plan.ceilings import Machine, ceilings_of, read_share
from build_engines.plan.devices import Cpu, Gpu, cpus, find_cpu, find_gpu, gpus
from build_engines.plan.memory import Layout, weight_bytes
from build_engines.plan.model_numbers import ModelNumbers
from build_engines.plan.parallel import refusals
from build_engines.plan.report import Plan, Wish, plan_model
from tests.unit.build_engines.plan.models import model_of

# GPT-3 as its paper gives it: 96 layers of 12,288, tied embeddings; Llama-2-70B as its config.json does.
GPT3 = ModelNumbers(
    family="numbers",
    layers=96,
    hidden=12288,
    heads=96,
    kv_heads=96,
    head_dim=128,
    intermediate=49152,
    vocab=50257,
    context=2048,
    gated=False,
    tied=True,
)
LLAMA_2_70B = replace(model_of("llama-3.1-70b"), vocab=32000, context=4096)


def _plan(model: ModelNumbers, gpu: str, count: int, **wish: object) -> Plan:
    return plan_model(model, find_gpu(gpu), Wish(count=count, **wish))  # type: ignore[arg-type]


def test_175_billion_in_fp16_are_350_gb_and_do_not_fit_8_x_40() -> None:
    assert weight_bytes(GPT3, Layout()) / 1e9 == pytest.approx(350, rel=0.01)
    plan = _plan(GPT3, "A100-40", 8)
    assert not any(choice.fits for choice in plan.ranked)
    assert any("no legal choice of 8 x A100-40" in problem for problem in plan.problems)
    assert plan.best.layout.world == 8  # the nearest miss
    assert _plan(GPT3, "A100-80", 8).best.fits


def test_llama_2_70b_in_fp16_fits_8_x_a100_80_and_not_one() -> None:
    plan = _plan(LLAMA_2_70B, "A100-80", 8)
    assert plan.problems == []
    assert plan.best.fits
    assert plan.best.layout.world <= 8
    assert plan.best.memory.weights == pytest.approx(2 * 68.98e9 / plan.best.layout.world, rel=0.02)
    assert not _plan(LLAMA_2_70B, "A100-80", 1).best.fits


@pytest.mark.parametrize("quant", ["int4_awq", "int4_wo"])
def test_70b_in_4_bits_needs_offload_on_one_24_gb_card(quant: str) -> None:
    plan = _plan(LLAMA_2_70B, "RTX-4090", 1, quant=quant)
    assert not plan.best.fits
    assert plan.offload is not None
    assert 12e9 < plan.offload.host_bytes < 25e9
    assert plan.offload.decode_one < 3  # over PCIe for each token
    assert _plan(LLAMA_2_70B, "RTX-4090", 2, quant=quant).best.fits


@pytest.mark.parametrize(
    ("name", "layout", "parts"),
    [
        ("llama-3.1-8b", Layout(tp=3), ["tp 3", "32 heads"]),
        ("qwen2.5-7b", Layout(tp=8), ["tp 8", "28 heads"]),
        ("llama-3.1-8b", Layout(pp=33), ["pp 33", "32 layers"]),
        ("qwen2.5-7b", Layout(tp=4, quant="int4_awq", group=256), ["group size 256", "'o'", "--group-size"]),
    ],
)
def test_what_is_not_legal_says_why(name: str, layout: Layout, parts: list[str]) -> None:
    found = "; ".join(refusals(model_of(name), layout))
    assert all(part in found for part in parts)


def test_kv_heads_must_divide_or_be_divided() -> None:
    model = replace(model_of("llama-3.1-8b"), heads=24, kv_heads=6)
    assert any("6 KV heads" in text for text in refusals(model, Layout(tp=4)))
    assert not any("KV heads" in text for text in refusals(model, Layout(tp=12)))


def test_the_legal_choices_come_first_and_the_smallest_that_fits_leads() -> None:
    plan = _plan(model_of("llama-3.1-8b"), "H100", 8, quant="fp8")
    assert (plan.best.layout.tp, plan.best.layout.pp, plan.best.replicas) == (1, 1, 8)
    legal = [choice.legal for choice in plan.ranked]
    assert legal == sorted(legal, reverse=True)
    assert all(choice.reasons for choice in plan.ranked)


def test_a_group_inside_a_node_comes_before_one_across() -> None:
    plan = _plan(model_of("llama-3.1-70b"), "A100-80", 4, per_node=2)
    assert not plan.best.crosses_nodes
    across = next(choice for choice in plan.ranked if choice.layout.tp == 4)
    assert any("crosses a node" in reason for reason in across.reasons)


def test_fp8_is_not_there_on_an_a100() -> None:
    plan = _plan(model_of("llama-3.1-8b"), "A100-80", 1, quant="fp8", kv="fp8")
    assert any("fp8 needs compute capability 8.9, this GPU has 8.0" in problem for problem in plan.problems)
    assert any(problem.startswith("KV cache: fp8") for problem in plan.problems)
    assert _plan(model_of("llama-3.1-8b"), "L4", 1, quant="fp8").formats["fp8"] == ""
    assert _plan(model_of("llama-3.1-8b"), "H100", 1).formats["nvfp4"]
    assert _plan(model_of("llama-3.1-8b"), "B200", 1).formats["nvfp4"] == ""


def test_ceilings_by_hand() -> None:
    """One sequence: 16.06 GB of weights, less the embedding, and 4,096 x 131,072 bytes of KV, at 3.35 TB/s."""
    model, machine = model_of("llama-3.1-8b"), Machine(3.35e12, 989.4e12)
    found = ceilings_of(model, Layout(), machine, 1, 4096)
    assert found.decode_one == pytest.approx(
        3.35e12 / (2 * (8_030_261_248 - 128_256 * 4096) + 4096 * 131_072), rel=1e-6
    )
    assert found.decode_bound == "memory"
    assert ceilings_of(model, Layout(), machine, 4096, 1).decode_bound == "arithmetic"
    attention = 4 * 32 * 4096 * 4096 / 2  # operations a token, on average over a prompt
    assert found.prefill == pytest.approx(989.4e12 / (2 * 7.504e9 + attention), rel=0.001)
    hour_of_tokens = found.decode * 3600
    assert found.dollars(3.0, 1)[1] == pytest.approx(3.0 / hour_of_tokens * 1e6)


def test_a_batch_reads_more_experts_than_one_token() -> None:
    model = model_of("mixtral-8x7b")
    shares = [read_share(model, batch) for batch in (1, 4, 64)]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.27, abs=0.02)
    assert shares[2] > 0.99
    assert read_share(model_of("llama-3.1-8b"), 1) == 1.0


def test_traps_are_said_where_they_lie() -> None:
    tight = _plan(model_of("llama-3.1-8b"), "L4", 1, sequences=64, quant="fp8", kv="fp8")
    assert any("MAX_UTILIZATION" in trap for trap in tight.traps)
    assert any("KV cache fp8" in trap for trap in tight.traps)
    assert any("no NVLink" in trap for trap in _plan(model_of("llama-3.1-70b"), "L40S", 8, tp=8).traps)
    assert any("not verified there" in trap for trap in _plan(GPT3, "B200", 8, quant="int4_awq").traps)


@pytest.mark.parametrize(
    ("wish", "part"),
    [
        ({"count": 0}, "count 0: there must be one GPU"),
        ({"quant": "int2"}, "quant 'int2'"),
        ({"kv": "fp4"}, "kv 'fp4'"),
        ({"tp": -1}, "tp -1"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(wish: dict[str, object], part: str) -> None:
    with pytest.raises(SpecError, match=part):
        Wish(**wish)  # type: ignore[arg-type]


def test_a_length_beyond_the_context_is_refused() -> None:
    with pytest.raises(SpecError, match="length 4096: the model's context is 2048"):
        _plan(GPT3, "H100", 1, length=4096)


def test_every_figure_has_a_source_and_a_date() -> None:
    devices: list[Gpu | Cpu] = [*gpus().values(), *cpus().values()]
    assert all(device.source and device.date for device in devices)
    for gpu in gpus().values():
        assert min(gpu.memory_gb, gpu.bandwidth_gbs, gpu.fp16_tflops, gpu.link_gbs, gpu.host_gbs) > 0
        assert bool(gpu.fp8_tflops) == (gpu.version >= (8, 9)), gpu.name
        assert bool(gpu.fp4_tflops) == (gpu.version >= (10, 0)), gpu.name
    named = {"L4", "A10G", "L40S", "RTX-4090", "A100-40", "A100-80", "H100", "H200", "B200", "GH200"}
    assert named <= set(gpus())


def test_devices_are_found_in_any_case_and_guessed() -> None:
    assert find_gpu("h100").name == "H100"
    assert find_gpu("4090").name == "RTX-4090"
    with pytest.raises(SpecError, match="did you mean 'H200'"):
        find_gpu("H2000")


def test_a_cpu_has_the_memory_of_its_machine_and_no_traps_of_a_gpu() -> None:
    model, cpu = model_of("llama-3.1-8b"), find_cpu("EPYC-9654")
    plan = plan_model(model, cpu, Wish(memory_gb=64, quant="int8_wo"))
    assert plan.best.fits
    assert plan.traps == ()
    assert plan.ceilings.decode_one < cpu.bandwidth_gbs / 8
    with pytest.raises(SpecError, match="--memory-gb"):
        plan_model(model, cpu, Wish())
