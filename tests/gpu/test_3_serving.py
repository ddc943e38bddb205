"""Steps 6 to 9: served through Triton; answers, memory and speed against references and the plan."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from build_engines.build import build
from build_engines.builders._tensorrt_llm.checks import memory_plan
from build_engines.builders._tensorrt_llm.target import resolve
from build_engines.plan.ceilings import Machine, ceilings_of
from build_engines.plan.devices import find_gpu
from build_engines.plan.devices import gpus as known_gpus
from build_engines.plan.source import find_config
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from python_llm.gpus import Gpu, visible_gpus
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server, start_server
from tests.gpu.conftest import MODEL, spec_of
from triton_llm_client import Client, GenerateParams

PROMPTS = (
    "The ferry left the small harbour at six in the morning, and",
    "def fibonacci(n: int) -> int:",
    "Water boils at",
    "Zwei mal drei ist",
)
KV_BYTES = 2 << 30
_START = 1800.0  # seconds: a first load compiles kernels
_HOLD = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def free_before(plain: Path) -> int:
    """Once the engine is built."""
    return visible_gpus()[0].free


@pytest.fixture(scope="module")
def server(free_before: int, plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    folder = tmp_path_factory.mktemp("serving")
    add_entry("plain", plain, folder / "repository", ServingConfig(kv_cache_bytes=KV_BYTES))
    with running_server(folder / "repository", run_dir=folder / "run", extra=[f"--start-seconds={_START}"]) as running:
        yield running


def answer(server: ServerUnderTest, prompt: str | list[int], tokens: int, model: str = "plain") -> Any:
    with Client(server.grpc_url, model=model) as client:
        return client.generate(prompt, GenerateParams(max_tokens=tokens, ignore_eos=True, temperature=0.0))


def test_step_6_greedy_answers_are_transformers(server: ServerUnderTest) -> None:
    """Up to a near-tie: where they part, the reference's two best logits are within a tenth of their deviation."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizers: Any = AutoTokenizer
    models: Any = AutoModelForCausalLM
    tokenizer = tokenizers.from_pretrained(MODEL)
    model = models.from_pretrained(MODEL, dtype=torch.bfloat16).cuda().eval()
    for prompt in PROMPTS:
        ids = tokenizer(prompt)["input_ids"]
        got = list(answer(server, ids, 32).output_ids)
        with torch.no_grad():
            logits = model(torch.tensor([ids + got], device="cuda")).logits[0, len(ids) - 1 : -1].float()
        parts = next((i for i, token in enumerate(got) if token != int(logits[i].argmax())), None)
        if parts is not None:
            first, second = logits[parts].topk(2).values.tolist()
            print(f"{prompt!r}: they part at token {parts}, the reference's gap is {first - second:.3g}")
            assert got[parts] == int(logits[parts].topk(2).indices[1])
            assert first - second <= 0.1 * float(logits[parts].std())


def test_step_6_a_full_gpu_is_refused_before_anything_starts(plain: Path, tmp_path: Path) -> None:
    add_entry("plain", plain, tmp_path / "repository", ServingConfig(kv_cache_bytes=KV_BYTES))
    command = [sys.executable, "-c", _HOLD, str(1 << 30)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        server = start_server(tmp_path / "repository", run_dir=tmp_path / "run")
        assert server.process.wait(300) == 2
        assert "a rank needs about" in server.launcher_log_path.read_text("utf-8")
    finally:
        holder.communicate()


def test_step_7_memory_is_what_the_plan_says(server: ServerUnderTest, plain: Path, free_before: int) -> None:
    """Beside weights and KV cache: activations and reserve, which were estimates. The figure is printed."""
    _, config = find_config(MODEL, "", offline=False)
    planned = memory_plan(resolve(spec_of("plain"), config, visible_gpus()))
    answer(server, PROMPTS[0], 8)
    used = free_before - visible_gpus()[0].free
    rest = used - (plain / "rank0.engine").stat().st_size - KV_BYTES
    allowed = planned.activations + planned.reserve
    print(f"activations and reserve: {rest / 1e9:.2f} GB measured, {allowed / 1e9:.2f} GB planned")
    assert 0 < rest <= 1.5 * allowed


@pytest.mark.parametrize("kv", ["auto", "fp8"])
def test_step_8_a_checkpoint_is_served_without_a_build(kv: str, tmp_path: Path, gpus: tuple[Gpu, ...]) -> None:
    source = os.environ.get("GPU_FP8_CHECKPOINT", "")
    if not source:
        pytest.skip("GPU_FP8_CHECKPOINT is not set: name a folder that ModelOpt quantised to FP8")
    if kv == "fp8" and gpus[0].version < (8, 9):
        pytest.skip(f"an FP8 KV cache needs compute capability 8.9, this GPU has {gpus[0].capability}")
    spec = EngineSpec(model=source, name="imported", engine="tensorrt_llm", quant="none")
    artifact = build(spec, tmp_path / "engines").path
    options: dict[str, Any] = {} if kv == "auto" else {"kv_cache_config": {"dtype": kv}}
    add_entry("imported", artifact, tmp_path / "repository", ServingConfig(engine_options=options))
    with running_server(
        tmp_path / "repository", run_dir=tmp_path / "run", extra=[f"--start-seconds={_START}"]
    ) as running:
        assert len(answer(running, PROMPTS[0], 16, "imported").output_ids) == 16


def kind_of(gpu: Gpu) -> str:
    """As the plan names it: the longest known name that the GPU's own name holds."""
    if named := os.environ.get("GPU_KIND"):
        return named
    own = gpu.name.replace("-", "").replace(" ", "").casefold()
    words = {word: each.name for each in known_gpus().values() for word in (each.name, *each.aliases)}
    fitting = [word for word in words if word.replace("-", "").casefold() in own]
    if not fitting:
        pytest.skip(f"GPU '{gpu.name}': build_engines/plan/gpus.json has no such kind; say one with GPU_KIND")
    return words[max(fitting, key=len)]


def test_step_9_no_run_is_faster_than_its_ceiling(server: ServerUnderTest, gpus: tuple[Gpu, ...]) -> None:
    row = find_gpu(kind_of(gpus[0]))
    _, config = find_config(MODEL, "", offline=False)
    target = resolve(spec_of("plain"), config, visible_gpus())
    machine = Machine(row.bandwidth_gbs * 1e9, row.arithmetic("fp16"))
    most = ceilings_of(target.numbers, target.layout, machine, batch=1, length=512)
    prompt = list(range(1000, 1000 + 768))
    answer(server, prompt[:16], 8)  # warm
    begun = time.perf_counter()
    prefilled = answer(server, [token + 7 for token in prompt], 1)
    prefill = len(prompt) / (time.perf_counter() - begun)
    assert prefilled.input_tokens == len(prompt)
    begun = time.perf_counter()
    answer(server, prompt[:16], 256)
    decode = 256 / (time.perf_counter() - begun)
    print(f"decode {decode:.0f} of at most {most.decode_one:.0f}, prefill {prefill:.0f} of {most.prefill:.0f} tokens/s")
    assert decode <= most.decode_one
    assert prefill <= most.prefill
