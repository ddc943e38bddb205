"""Everything about a build that can be checked before a GPU is touched, all at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from build_engines.builders._tensorrt_llm.calibration import read_passages
from build_engines.builders._tensorrt_llm.container import api
from build_engines.builders._tensorrt_llm.target import COMMANDS_ONLY, Target
from build_engines.errors import SpecError
from build_engines.plan.formats import Format, KvFormat, missing_on
from build_engines.plan.memory import Memory, memory_of
from build_engines.plan.parallel import refusals
from build_engines.plan.parts import parameters

__all__ = ["Check", "check_target", "memory_plan", "require_sound"]

OK, FAILED, UNKNOWN = "ok", "failed", "not checked"


@dataclass(frozen=True)
class Check:
    subject: str
    state: str
    text: str


def check_target(target: Target) -> list[Check]:
    """One check or more of each kind, in the order of the table."""
    return [check for checker in _CHECKS for check in checker(target)]


def require_sound(target: Target) -> None:
    """Refuse a build with a failed check.

    Raises:
        SpecError: every failed check, each with its remedy.
    """
    failed = [check for check in check_target(target) if check.state == FAILED]
    if failed:
        lines = "".join(f"\n  {check.subject}: {check.text}" for check in failed)
        raise SpecError(f"model '{target.spec.model}': it cannot be built as asked:{lines}")


def memory_plan(target: Target) -> Memory:
    """Of the GPU kind that is named or seen; of an endless one where there is none."""
    return memory_of(target.numbers, target.layout, target.gpu_memory)


def _gpu(target: Target) -> Iterator[Check]:
    if target.capability is None:
        yield Check("gpu", UNKNOWN, "zero GPUs are visible and none is named; name the kind with --gpu (GPU=H100)")
        return
    kind = target.gpu.name if target.gpu else "visible"
    yield Check("gpu", OK, f"{kind}, compute capability {'.'.join(map(str, target.capability))}")


def _format(target: Target) -> Iterator[Check]:
    for name, row in (("format", target.format), ("kv cache", target.kv)):
        if target.capability is None:
            yield Check(name, UNKNOWN, f"{row.name} needs compute capability {'.'.join(map(str, row.needs))}")
        elif why := missing_on(row, target.capability):
            yield Check(name, FAILED, f"{why}; choose another of the plan's formats, or another GPU")
        else:
            yield Check(name, OK, row.name + _unlisted(row, target.capability))
    if target.quant in ("int8_sq", "int8_wo") and target.spec.kv_dtype == "nvfp4":
        yield Check("kv cache", FAILED, "nvfp4 beside an int8 format; choose kv_dtype int8 or auto")


def _unlisted(row: Format | KvFormat, capability: tuple[int, int]) -> str:
    newest = row.verified_to if isinstance(row, Format) else capability
    return "" if capability <= newest else "; the library's tables do not list it for this GPU: not verified there"


def _route(target: Target) -> Iterator[Check]:
    known = COMMANDS_ONLY.get(target.numbers.family)
    if known is not None and target.quant not in known:
        yield Check(
            "architecture",
            FAILED,
            f"{target.numbers.family} is converted by a script that knows {', '.join(known)}, not {target.quant}; "
            "choose one of these",
        )
    elif known is not None and target.spec.kv_dtype != "auto":
        yield Check(
            "kv cache", FAILED, f"{target.numbers.family}: its script has no KV quantisation; use kv_dtype auto"
        )
    else:
        yield Check("architecture", OK, f"{target.numbers.family}, by {_ROUTES[target.route]}")
    if target.route == "commands" and target.spec.kv_dtype == "nvfp4":
        yield Check("kv cache", FAILED, "quantize.py has fp8 and int8; choose one, or build where every rank has a GPU")


_ROUTES = {"llm_api": "the LLM API", "commands": "commands"}


def _parallel(target: Target) -> Iterator[Check]:
    broken = refusals(target.numbers, target.layout)
    yield from (Check("parallel", FAILED, text) for text in broken)
    if not broken:
        nodes = f" on {target.nodes} nodes of {target.spec.gpus_per_node}" if target.nodes > 1 else ""
        yield Check("parallel", OK, f"tp {target.spec.tp} x pp {target.spec.pp} = {target.world} ranks{nodes}")
    if target.spec.tp > target.spec.gpus_per_node or (target.nodes > 1 and target.spec.gpus_per_node % target.spec.tp):
        yield Check(
            "parallel",
            FAILED,
            f"tp {target.spec.tp}: a node has {target.spec.gpus_per_node} GPUs and a tp group must not cross nodes; "
            "lower tp and raise pp",
        )


def _limits(target: Target) -> Iterator[Check]:
    limits, context = target.limits, target.numbers.context
    problems = []
    if limits.max_seq_len > context:
        problems.append(f"max_seq_len {limits.max_seq_len}: the model's context is {context}; lower it")
    if limits.max_input_len > limits.max_seq_len:
        problems.append(
            f"max_input_len {limits.max_input_len}: at most max_seq_len {limits.max_seq_len}, which holds prompt and "
            "output; lower it"
        )
    if limits.max_batch_size > limits.max_num_tokens:
        problems.append(
            f"max_num_tokens {limits.max_num_tokens}: a step holds a token of each of {limits.max_batch_size} sequences"
            "; raise it or lower max_batch_size"
        )
    yield from (Check("limits", FAILED, problem) for problem in problems)
    if not problems:
        yield Check(
            "limits",
            OK,
            f"{limits.max_batch_size} sequences, {limits.max_input_len} of {limits.max_seq_len} tokens prompt, "
            f"{limits.max_num_tokens} tokens a step",
        )


def _calibration(target: Target) -> Iterator[Check]:
    spec = target.spec
    if not target.calibrates:
        text = f"{target.quant} needs none" + (f"; '{spec.calib}' is not read" if spec.calib else "")
        yield Check("calibration", OK, text)
    elif not spec.calib:
        yield Check(
            "calibration", OK, "the library's own data, cnn_dailymail, from the network; --calib (CALIB=) names a text"
        )
    else:
        try:
            yield Check("calibration", OK, f"'{spec.calib}', {len(read_passages(spec.calib))} passages")
        except SpecError as error:
            yield Check("calibration", FAILED, str(error))


def _lora(target: Target) -> Iterator[Check]:
    spec = target.spec
    if not spec.max_lora_rank:
        return
    modules = ",".join(spec.lora_modules) or "every module the library knows: name them to save memory"
    yield Check("lora", OK, f"rank {spec.max_lora_rank} at most, {modules}")


def _speculative(target: Target) -> Iterator[Check]:
    mode = target.spec.speculative
    if mode in ("medusa", "eagle"):
        yield Check(
            "speculative",
            FAILED,
            f"{mode}: its heads are converted with the model by a script of the library's examples, which is not run "
            "here; choose lookahead_decoding, or serve a checkpoint with Eagle at run time",
        )
    elif mode == "draft_tokens_external":
        yield Check(
            "speculative",
            FAILED,
            f"{mode}: the LLM API, which serves engines here, gives them no draft tokens; choose lookahead_decoding, "
            "or serve a checkpoint with speculation draft_model",
        )
    elif mode != "none":
        yield Check("speculative", OK, f"{mode}, {target.spec.max_draft_len} draft tokens")


def _plugins(target: Target) -> Iterator[Check]:
    """The library drops unknown plugin options without a word, so they are held to the facts here."""
    facts = api()["symbols"]["tensorrt_llm.plugin.PluginConfig"]
    for option in target.spec.plugins:
        name, _, value = option.partition("=")
        if name not in facts["names"]:
            close = difflib.get_close_matches(name, facts["names"], n=1)
            hint = f"did you mean '{close[0]}'?" if close else "see docs/tensorrt_llm.md"
            yield Check("plugins", FAILED, f"{name}: no plugin option of TensorRT-LLM {api()['version']}; {hint}")
        else:
            yield Check("plugins", OK, f"{name}={value}")


def _memory(target: Target) -> Iterator[Check]:
    if not target.gpu_memory:
        yield Check("memory", UNKNOWN, "the GPU's memory is not known; name the kind with --gpu (GPU=H100)")
        return
    memory = memory_plan(target)
    fit = memory.sequences(target.limits.max_seq_len)
    if memory.free <= 0 or not fit:
        short = f"{-memory.free / 1e9:.1f} GB too little" if memory.free <= 0 else "no room for one sequence"
        yield Check(
            "memory",
            FAILED,
            f"{memory.weights / 1e9:.1f} GB of weights on a GPU of {memory.total / 1e9:.0f} GB: {short}; raise tp or "
            "pp, use fewer bits, or lower max_seq_len",
        )
        return
    yield Check(
        "memory",
        OK,
        f"{memory.weights / 1e9:.1f} GB of weights and {memory.kv / 1e9:.1f} GB of KV cache on a GPU of "
        f"{memory.total / 1e9:.0f} GB: {fit} sequences of {target.limits.max_seq_len} tokens",
    )


def _quantising(target: Target) -> Iterator[Check]:
    """Calibration runs the model in 16 bits on the GPUs that are there; what they cannot hold goes to the host."""
    if not (target.gpu_memory and target.calibrates):
        return
    size = 2 * parameters(target.numbers)
    room = target.gpu_memory * target.workers
    where = "on" if size < 0.9 * room else "over host memory and"
    yield Check(
        "quantising", OK, f"{size / 1e9:.1f} GB in 16 bits, {where} {target.workers} x {target.gpu_memory / 1e9:.0f} GB"
    )


_CHECKS: tuple[Callable[[Target], Iterator[Check]], ...] = (
    _gpu,
    _format,
    _route,
    _parallel,
    _limits,
    _calibration,
    _lora,
    _speculative,
    _plugins,
    _memory,
    _quantising,
)
