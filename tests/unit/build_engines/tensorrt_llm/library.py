"""What a build uses of TensorRT-LLM: classes that take what the API facts name, and save what an engine's folder has.

The commands do the same as programs; none of it computes anything.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from build_engines.builders._tensorrt_llm.container import api

__all__ = ["install", "write_commands", "write_engine"]


def write_engine(output: Path, tp: int, pp: int, version: str = "1.2.1", **build: Any) -> None:
    mapping = {"world_size": tp * pp, "tp_size": tp, "pp_size": pp}
    limits = {"max_batch_size": 64, "max_input_len": 2048, "max_seq_len": 2048, "max_num_tokens": 8192}
    config = {
        "version": version,
        "pretrained_config": {"architecture": "LlamaForCausalLM", "mapping": mapping, "vocab_size": 512},
        "build_config": {**limits, "max_beam_width": 1, "plugin_config": {"use_paged_context_fmha": True}, **build},
    }
    output.mkdir(parents=True, exist_ok=True)
    (output / "config.json").write_text(json.dumps(config), "utf-8")
    for rank in range(tp * pp):
        (output / f"rank{rank}.engine").write_bytes(b"engine of rank %d" % rank)
    (output / "model.cache").write_bytes(b"timings")


def install(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Put the library into sys.modules; what LLM was given is appended to the list."""
    seen: list[dict[str, Any]] = []
    for symbol, facts in api()["symbols"].items():
        if not symbol.startswith("tensorrt_llm."):
            continue
        module, _, name = symbol.rpartition(".")
        found = _Enum(facts["names"]) if facts["kind"] == "enum" else _class(name, set(facts["names"]))
        monkeypatch.setitem(sys.modules, module, sys.modules.get(module) or ModuleType(module))
        setattr(sys.modules[module], name, found)

    class LLM(_class("LLM", set(api()["symbols"]["tensorrt_llm._tensorrt_engine.LLM"]["names"]))):  # type: ignore[misc]
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            seen.append(given)

        def save(self, folder: str) -> None:
            given = self.given
            write_engine(Path(folder), given["tensor_parallel_size"], given["pipeline_parallel_size"])

        def shutdown(self) -> None:
            seen.append({"shutdown": True})

    sys.modules["tensorrt_llm._tensorrt_engine"].LLM = LLM  # type: ignore[attr-defined]
    return seen


class _Enum:
    def __init__(self, names: dict[str, str]) -> None:
        for name in names:
            setattr(self, name, name)


def _class(name: str, known: set[str]) -> Any:
    """As pydantic with extra=forbid: a name that is not known is an error."""

    def construct(self: Any, **given: Any) -> None:
        if unknown := set(given) - known:
            raise ValueError(f"{name}: extra inputs are not permitted: {unknown}")
        self.given = given

    return type(name, (), {"__init__": construct})


_QUANTISE = """
import pathlib, sys
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
folder = pathlib.Path(flags["--output_dir"])
folder.mkdir(parents=True)
(folder / "flags").write_text(" ".join(sys.argv[1:]))
"""
_BUILD = """#!{python}
import pathlib, sys
sys.path.insert(0, {root!r})
from tests.unit.build_engines.tensorrt_llm.library import write_engine
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
words = (pathlib.Path(flags["--checkpoint_dir"]) / "flags").read_text().split()
given = dict(zip(words[::2], words[1::2]))
if {fails}:
    sys.exit("no kernel for this GPU")
write_engine(pathlib.Path(flags["--output_dir"]), int(given["--tp_size"]), int(given["--pp_size"]))
"""


def write_commands(folder: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
    """quantize.py in TRTLLM_EXAMPLES, and trtllm-build on the path."""
    (folder / "examples" / "quantization").mkdir(parents=True)
    (folder / "examples" / "quantization" / "quantize.py").write_text(_QUANTISE, "utf-8")
    command = folder / "trtllm-build"
    root = str(Path(__file__).parents[4])
    command.write_text(_BUILD.format(python=sys.executable, root=root, fails=fails), "utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("TRTLLM_EXAMPLES", str(folder / "examples"))
    monkeypatch.setenv("PATH", str(folder), prepend=":")
