"""TensorRT-LLM: engines with quantisation and parallelism, and quantised checkpoints that need no build.

The rooms are in _tensorrt_llm/. The library is imported, and its commands are run, only inside ``build``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.builders import GpuBuilder, Said
from build_engines.builders._tensorrt_llm.api_route import llm_call
from build_engines.builders._tensorrt_llm.calibration import write_calibration
from build_engines.builders._tensorrt_llm.calls import made
from build_engines.builders._tensorrt_llm.checkpoint import IMPORTER
from build_engines.builders._tensorrt_llm.checks import memory_plan, require_sound
from build_engines.builders._tensorrt_llm.command_route import EXAMPLES, commands
from build_engines.builders._tensorrt_llm.container import require_library
from build_engines.builders._tensorrt_llm.dry_run import dry_run
from build_engines.builders._tensorrt_llm.engine_files import built_limits, check_ranks, read_engine, tidy
from build_engines.builders._tensorrt_llm.machine import installed
from build_engines.builders._tensorrt_llm.quantised import QUANT_CONFIG
from build_engines.builders._tensorrt_llm.target import Target, resolve
from build_engines.errors import BuildFailure, CheckpointError, MissingRuntime
from build_engines.json_files import read_object
from build_engines.plan.formats import FORMATS, WORDS
from build_engines.plan.model_numbers import read_numbers
from build_engines.plan.source import find_config
from build_engines.progress import Progress
from build_engines.spec import DEFAULT_MODEL, EngineSpec
from build_engines.stamp import Stamp
from python_llm.gpus import visible_gpus

__all__ = ["BUILDER", "TensorrtLlmBuilder"]

_PLACES = ("/app/tensorrt_llm/examples", "/opt/tensorrt_llm/examples", "/workspace/TensorRT-LLM/examples")


class TensorrtLlmBuilder:
    engine = "tensorrt_llm"
    kind = "tensorrt_llm-engine"
    packages: tuple[str, ...] = ("tensorrt_llm", "tensorrt", "transformers", "torch")
    formats: Mapping[str, str] = {
        **{name: row.algo or "none" for name, row in FORMATS.items()},
        **{word: FORMATS[name].algo for word, name in WORDS.items()},
    }
    has_limits = True

    def fitting(self, spec: EngineSpec, folder: Path) -> GpuBuilder:
        """This builder, or the importer where the source is a checkpoint to be served as it is."""
        quantised = (folder / QUANT_CONFIG).is_file()
        return IMPORTER if spec.form == "checkpoint" or (quantised and not spec.form) else self

    def require(self, spec: EngineSpec) -> None:
        """Refuse what cannot be executed here: a GGUF, and a build outside the container."""
        _refuse_gguf(spec.model)
        folder, _ = find_config(spec.model, spec.revision, offline=spec.offline)
        if self.fitting(spec, folder).kind == self.kind:
            require_library(spec)

    def dry_run(self, spec: EngineSpec, engines: Path) -> Said:
        """The complete plan, of a config.json alone; runs everywhere."""
        _refuse_gguf(spec.model)
        folder, config = find_config(spec.model, spec.revision, offline=spec.offline)
        if self.fitting(spec, folder).kind == IMPORTER.kind:
            return IMPORTER.said(spec, folder, engines)
        return dry_run(resolve(spec, config, visible_gpus()), engines)

    def check(self, folder: Path, config: Mapping[str, Any], *, trusted: bool = False) -> None:
        read_numbers(config, str(folder))

    def build(self, folder: Path, spec: EngineSpec, output: Path, scratch: Path, progress: Progress) -> dict[str, Any]:
        target = resolve(spec, read_object(folder / "config.json"), visible_gpus())
        if not target.visible:
            raise MissingRuntime(
                "engine 'tensorrt_llm': zero GPUs are visible; building runs kernels on one at least: start the "
                "container with --gpus all, on a machine that has them."
            )
        require_sound(target)
        calibration = ""
        if spec.calib and target.calibrates:
            calibration = str(write_calibration(spec.calib, scratch / "calibration"))
        route = _build_by_api if target.route == "llm_api" else _build_by_commands
        route(target, folder, output, scratch, calibration, progress)
        tidy(output)
        check_ranks(output, spec.tp, spec.pp)
        group = {"group_size": target.layout.group_size} if target.layout.group_size else {}
        form = target.format.algo or "none"
        return {"weights": spec.quant, "format": form, "kv_cache": spec.kv_dtype, **group}

    def verify(self, output: Path, vocab_size: int) -> None:
        """Of the files alone: the first tokens are asked by the launcher's probe, which all ranks answer."""
        pretrained = read_engine(output)["pretrained_config"]
        found = pretrained.get("vocab_size")
        if found is not None and found < vocab_size:
            raise BuildFailure(f"engine '{output}': {found} logits, the checkpoint's vocabulary is {vocab_size}.")

    def stamp(self, spec: EngineSpec, folder: Path, output: Path) -> Stamp:
        config, gpus = read_engine(output), visible_gpus()
        target = resolve(spec, read_object(folder / "config.json"), gpus)
        capability = {"compute_capability": gpus[0].capability} if gpus else {}
        modelopt = {"nvidia-modelopt": found} if (found := installed("nvidia-modelopt")) else {}
        return Stamp(
            tp=spec.tp,
            pp=spec.pp,
            builder={"engine_version": str(config["version"]), **capability, **modelopt},
            limits=built_limits(config),
            features={**_features(spec, config), "memory": _memory(target)},
        )


BUILDER = TensorrtLlmBuilder()


def _refuse_gguf(model: str) -> None:
    if model == DEFAULT_MODEL or model.endswith(".gguf"):
        raise CheckpointError(
            f"model '{model}': a GGUF; TensorRT-LLM quantises from the original weights: give the Hugging Face folder "
            "or hub id (for smollm2: HuggingFaceTB/SmolLM2-135M-Instruct)."
        )


def _features(spec: EngineSpec, config: Mapping[str, Any]) -> dict[str, Any]:
    """What preflight compares a request's wishes with."""
    build = config["build_config"]
    plugins = build.get("plugin_config") or {}
    paged = bool(plugins.get("use_paged_context_fmha", True))
    return {
        "max_lora_rank": spec.max_lora_rank if plugins.get("lora_plugin") else 0,
        "output_log_probs": bool(build.get("gather_generation_logits")) or spec.log_probs != "none",
        "prompt_log_probs": bool(build.get("gather_context_logits")),
        "chunked_context": paged,
        "kv_reuse": paged,
        "max_beam_width": int(build.get("max_beam_width") or 1),
        "speculative": spec.speculative,
        "kv_cache": spec.kv_dtype,
        "gpus_per_node": spec.gpus_per_node,
    }


def _memory(target: Target) -> dict[str, int]:
    memory = memory_plan(target)
    return {
        "weights": memory.weights,
        "activations": memory.activations,
        "reserve": memory.reserve,
        "kv_token": memory.kv_token,
    }


def _build_by_api(
    target: Target, folder: Path, output: Path, scratch: Path, calibration: str, progress: Progress
) -> None:
    progress.phase("build by the LLM API")
    call = llm_call(target, str(folder), calibration)
    try:
        llm = made(call)
        try:
            llm.save(str(output))
        finally:
            llm.shutdown()
    except (ValueError, RuntimeError, OSError, TypeError, AttributeError) as error:
        raise BuildFailure(f"engine '{output.name}': TensorRT-LLM {installed('tensorrt_llm')}: {error}") from error


def _build_by_commands(
    target: Target, folder: Path, output: Path, scratch: Path, calibration: str, progress: Progress
) -> None:
    examples = _examples()
    for command in commands(target, str(folder), str(scratch / "checkpoint"), str(output), calibration):
        progress.phase(Path(command.program).stem)
        log = scratch / f"{Path(command.program).stem}.log"
        with log.open("wb") as stream:
            done = subprocess.run(command.argv(examples), stdout=stream, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            tail = "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-20:])
            raise BuildFailure(f"command '{command}': it ended with {done.returncode}; its last lines:\n{tail}")


def _examples() -> str:
    """The folder of the library's examples.

    Raises:
        MissingRuntime: it is in none of the known places.
    """
    named = os.environ.get(EXAMPLES)
    found = next((place for place in ([named] if named else _PLACES) if (Path(place) / "quantization").is_dir()), None)
    if found is None:
        raise MissingRuntime(
            f"{EXAMPLES} '{named or ''}': no folder with the library's quantization examples there or in "
            f"{', '.join(_PLACES)}; fetch the examples of TensorRT-LLM's tag v1.2.1 and set {EXAMPLES}."
        )
    return found
