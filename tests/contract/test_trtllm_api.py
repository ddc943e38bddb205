"""Every name of TensorRT-LLM that a build uses stands in the API facts for the pinned version, in both copies of it."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from build_engines.builders._tensorrt_llm.api_route import llm_call
from build_engines.builders._tensorrt_llm.calls import symbols
from build_engines.builders._tensorrt_llm.command_route import Command, commands
from build_engines.builders._tensorrt_llm.container import api
from build_engines.builders._tensorrt_llm.engine_files import read_engine
from build_engines.builders._tensorrt_llm.quantised import QUANT_CONFIG
from build_engines.builders._tensorrt_llm.target import COMMANDS_ONLY, Target, resolve
from build_engines.plan.formats import FORMATS, KV_FORMATS, WORDS, Format, missing_on
from build_engines.plan.memory import BLOCK
from build_engines.spec import QUANTISATIONS, EngineSpec
from build_engines.spec_gpu import SPECULATIVE
from tests.unit.build_engines.plan.models import config_of

ROOT = Path(__file__).parents[2]
FACTS = api()["symbols"]
# Everything a spec may say that reaches the library.
EVERYTHING: dict[str, Any] = {
    "max_lora_rank": 8,
    "lora_modules": ("attn_qkv",),
    "log_probs": "all",
    "trust_remote_code": True,
    "plugins": ("gemm_plugin=auto", "multiple_profiles=enable"),
}


def _targets() -> Iterator[Target]:
    """Every format with every KV format and both routes, with and without everything else."""
    for fixture, quant, kv, more in itertools.product(
        ("llama-3.1-8b", "gpt-neox-20b"), FORMATS, KV_FORMATS, ({}, EVERYTHING)
    ):
        if quant in COMMANDS_ONLY.get(config_of(fixture)["model_type"], FORMATS):
            for ranks in ({"tp": 2}, {"tp": 2, "pp": 2, "gpus_per_node": 2}):
                knobs: dict[str, Any] = {"quant": quant, "kv_dtype": kv, **more, **ranks}
                yield resolve(EngineSpec(model=fixture, engine="tensorrt_llm", **knobs), config_of(fixture), ())


TARGETS = list(_targets())


def _known(symbol: str, name: str) -> None:
    assert symbol in FACTS, f"{symbol} is not in the API facts"
    if name:
        assert FACTS[symbol]["names"].get(name) == "both", f"{symbol} has no {name} in both copies of the facts"


def test_every_argument_of_the_llm_api_is_a_fact() -> None:
    used = {pair for target in TARGETS for pair in symbols(llm_call(target, "model", "calibration"))}
    for symbol, name in used:
        _known(symbol, name)
    assert {"QuantAlgo", "BuildConfig", "CalibConfig", "LoraConfig"} <= {
        symbol.rpartition(".")[2] for symbol, _ in used
    }
    assert {"save", "shutdown"} <= set(FACTS["tensorrt_llm._tensorrt_engine.LLM"]["methods"])


def test_every_flag_of_the_commands_is_a_fact() -> None:
    for target in TARGETS:
        for command in commands(target, "model", "checkpoint", "output", "calibration"):
            for flag, _ in command.flags:
                _known(*_owner(command, flag))


def _owner(command: Command, flag: str) -> tuple[str, str]:
    """A flag of trtllm-build may be a plugin option's."""
    plugins = FACTS[command.program].get("plugins", "")
    return (plugins, flag) if plugins and flag not in FACTS[command.program]["names"] else (command.program, flag)


@pytest.mark.parametrize("mode", [mode for mode in SPECULATIVE if mode != "none"])
def test_speculative_modes_are_the_commands_words(mode: str) -> None:
    assert mode in FACTS["trtllm-build"]["words"]["speculative_decoding_mode"]
    assert mode in FACTS["tensorrt_llm.models.modeling_utils.SpeculativeDecodingMode"]["words"].values()
    _known("trtllm-build", "speculative_decoding_mode")
    _known("trtllm-build", "max_draft_len")


def test_formats_are_the_librarys_own() -> None:
    words = FACTS["quantization/quantize.py"]["words"]
    for row in FORMATS.values():
        assert row.qformat in words["qformat"]
        _known("tensorrt_llm.llmapi.QuantAlgo", row.algo)
    assert set(words["qformat"]) == {row.qformat for row in FORMATS.values()}
    for kv in KV_FORMATS.values():
        _known("tensorrt_llm.llmapi.QuantAlgo", kv.algo)
    assert set(words["kv_cache_dtype"]) <= set(KV_FORMATS)
    assert set(WORDS) | set(FORMATS) == set(QUANTISATIONS) - {"fp16"}  # of a scorer alone: 16 bits are none's here
    assert set(COMMANDS_ONLY["gpt_neox"]) == {"none", "int8_wo", "int4_wo"}


def test_the_block_is_the_librarys_default() -> None:
    assert FACTS["tensorrt_llm.plugin.PluginConfig"]["values"]["tokens_per_block"] == f"int={BLOCK}"


def test_files_are_read_by_their_own_names(tmp_path: Path) -> None:
    assert QUANT_CONFIG in FACTS
    names = FACTS["engine config.json"]["names"]
    (tmp_path / "config.json").write_text(json.dumps({name: {} for name in names}), "utf-8")
    assert set(read_engine(tmp_path)) == set(names)


def test_the_version_is_pinned_once() -> None:
    pinned = f"tensorrt-llm=={api()['version']}"
    assert f'gpu = ["{pinned}"]' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert api()["container"]["tensorrt_llm"] == api()["version"]


def test_no_other_name_of_the_library_is_spelled_in_the_builder() -> None:
    """A text that begins as the library's modules do is a symbol of the facts, or a module of one."""
    modules = {symbol.rpartition(".")[0] for symbol in FACTS if symbol.startswith("tensorrt_llm.")}
    files = [
        ROOT / "build_engines/builders/tensorrt_llm.py",
        *(ROOT / "build_engines/builders/_tensorrt_llm").glob("*.py"),
    ]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text.startswith("tensorrt_llm."):
                assert text in FACTS or text in modules, f"{file.name}: {text}"


def test_the_page_has_a_row_for_each_format() -> None:
    page = (ROOT / "docs" / "tensorrt_llm.md").read_text("utf-8")
    for row in FORMATS.values():
        needs = ".".join(map(str, row.needs))
        calibrated = "yes" if row.calibrated else "no"
        columns = [_word(row, capability) for capability in ((8, 9), (8, 0), (9, 0), (10, 0))]
        line = " | ".join((f"| `{row.name}`", row.algo or "16 bits", needs, *columns, calibrated))
        assert f"{line} |\n" in page


def _word(row: Format, capability: tuple[int, int]) -> str:
    if missing_on(row, capability):
        return "no"
    return "yes" if capability <= row.verified_to else "not listed"
