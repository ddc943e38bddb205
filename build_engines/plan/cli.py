"""``triton-llm plan``: `build_engines.plan.report.plan_model` with its wish as flags."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from build_engines.errors import SpecError, storage_errors
from build_engines.plan.devices import Cpu, Gpu, cpus, find_cpu, find_gpu, gpus
from build_engines.plan.formats import FORMATS, KV_FORMATS, WORDS
from build_engines.plan.model_numbers import ModelNumbers, read_numbers
from build_engines.plan.picture import memory_svg
from build_engines.plan.report import Plan, Wish, plan_model
from build_engines.plan.source import find_config
from build_engines.plan.text import plan_text
from build_engines.spec import DEFAULT_MODEL
from build_engines.wheel import SMOLLM2
from python_llm.artifact import Artifact, ArtifactError

__all__ = ["add_arguments", "run"]

_NUMBERS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "context")
_NEEDED = ("layers", "hidden", "heads", "vocab")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        default="",
        help=f"folder with a config.json, the file, a hub id, or '{DEFAULT_MODEL}' once it is built",
    )
    for name in _NUMBERS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=0, help="instead of a model: its numbers")
    parser.add_argument("--experts", type=int, default=0, help="numbers: experts of a layer")
    parser.add_argument("--experts-per-token", type=int, default=0, help="numbers: experts that a token uses")
    parser.add_argument("--plain-mlp", action="store_true", help="numbers: an MLP without a gate")
    parser.add_argument("--tied", action="store_true", help="numbers: the last layer is the embedding")
    parser.add_argument("--gpu", default="", help=f"{', '.join(gpus())} (default: H100)")
    parser.add_argument("--cpu", default="", help=f"instead of a GPU: {', '.join(cpus())}")
    parser.add_argument("--memory-gb", type=float, default=0.0, help="of the CPU's machine")
    parser.add_argument("--count", type=int, default=1, help="GPUs (default: 1)")
    parser.add_argument("--gpus-per-node", type=int, default=8, help="GPUs of one machine (default: 8)")
    parser.add_argument("--quant", default="none", help=f"{', '.join((*FORMATS, *WORDS))} (default: none)")
    parser.add_argument("--kv-dtype", default="auto", help=f"{', '.join(KV_FORMATS)} (default: auto)")
    parser.add_argument("--group-size", type=int, default=0, help="of int4_awq and w4a8_awq (default: 128)")
    parser.add_argument("--tp", type=int, default=0, help="tensor parallelism (default: the plan chooses)")
    parser.add_argument("--pp", type=int, default=0, help="pipeline parallelism (default: the plan chooses)")
    parser.add_argument("--length", type=int, default=0, help="tokens of a sequence, prompt and output")
    parser.add_argument("--sequences", type=int, default=8, help="wanted at once (default: 8)")
    parser.add_argument("--max-num-tokens", type=int, default=8192, help="tokens of one step (default: 8192)")
    parser.add_argument("--price", type=float, default=0.0, help="dollars an hour and GPU")
    parser.add_argument("--revision", default="", help="of a hub id: branch, tag or commit")
    parser.add_argument("--offline", action="store_true", help="use only what is on this machine")
    parser.add_argument("--engines", type=Path, default=Path("engines"), help="folder of artifacts (default: engines)")
    parser.add_argument("--json", action="store_true", help="print the plan as one JSON object")
    parser.add_argument("--svg", type=Path, default=None, help="write a picture of one GPU's memory to this file")


def run(args: argparse.Namespace) -> int:
    model, device = _model_and_device(args)
    plan = plan_model(model, device, _wish(args))
    if args.svg is not None:
        with storage_errors(args.svg.parent):
            args.svg.write_text(memory_svg(plan.best.memory, _title(plan)), "utf-8")
    print(json.dumps(plan.to_record()) if args.json else plan_text(plan))
    return 2 if plan.problems else 0


def _model_and_device(args: argparse.Namespace) -> tuple[ModelNumbers, Gpu | Cpu]:
    """The device first: nothing is fetched for one that is not known. Where numbers are wrong too, both are said."""
    try:
        device = _device(args)
    except SpecError as error:
        if not args.model:
            try:
                _model(args)
            except SpecError as other:
                raise SpecError(f"{other} {error}") from error
        raise
    return _model(args), device


def _model(args: argparse.Namespace) -> ModelNumbers:
    given = {name: getattr(args, name) for name in _NUMBERS if getattr(args, name)}
    if args.model and given:
        raise SpecError(f"model '{args.model}': give a model or its numbers ({', '.join(given)}), not both.")
    if args.model:
        place = str(_built(args.engines)) if _is_default(args.model) else args.model
        return read_numbers(find_config(place, args.revision, offline=args.offline)[1], args.model)
    missing = [f"--{name}" for name in _NEEDED if name not in given]
    if missing:
        raise SpecError(f"model '': nothing to plan; name a model, or give its numbers: {', '.join(missing)} missing.")
    return _from_numbers(args, given)


def _is_default(model: str) -> bool:
    return model == DEFAULT_MODEL and not Path(model).exists()


def _built(engines: Path) -> Path:
    """The default model's artifact: its checkpoint is a GGUF, and the build writes the config.json."""
    folder = engines / DEFAULT_MODEL
    with suppress(ArtifactError):
        if Artifact.open(folder).manifest.source.id == SMOLLM2.id:
            return folder
    raise SpecError(
        f"model '{DEFAULT_MODEL}': its config.json is known once it is built, and '{folder}' is no build of it; run "
        f"'triton-llm build {DEFAULT_MODEL}' first, name the artifacts' folder with --engines, or give a folder, a "
        f"config.json or numbers ({', '.join(f'--{name}' for name in _NEEDED)})."
    )


def _from_numbers(args: argparse.Namespace, given: dict[str, int]) -> ModelNumbers:
    defaults: dict[str, Any] = {
        "kv_heads": given["heads"],
        "head_dim": given["hidden"] // given["heads"],
        "intermediate": 4 * given["hidden"],
        "context": 8192,
    }
    return ModelNumbers(
        family="numbers",
        **{**defaults, **given},
        gated=not args.plain_mlp,
        tied=args.tied,
        experts=args.experts,
        experts_per_token=args.experts_per_token,
    )


def _device(args: argparse.Namespace) -> Gpu | Cpu:
    if args.cpu and args.gpu:
        raise SpecError(f"cpu '{args.cpu}': a plan is for a GPU or a CPU; leave out one of --gpu and --cpu.")
    if args.cpu and args.count > 1:
        raise SpecError(f"count {args.count}: a CPU's plan is for one machine; leave it out.")
    return find_cpu(args.cpu) if args.cpu else find_gpu(args.gpu or "H100")


def _wish(args: argparse.Namespace) -> Wish:
    return Wish(
        count=args.count,
        per_node=args.gpus_per_node,
        quant=WORDS.get(args.quant, args.quant),
        kv=args.kv_dtype,
        group=args.group_size,
        tp=args.tp,
        pp=args.pp,
        length=args.length,
        sequences=args.sequences,
        max_num_tokens=args.max_num_tokens,
        price=args.price,
        memory_gb=args.memory_gb,
    )


def _title(plan: Plan) -> str:
    layout = plan.best.layout
    return f"{plan.device.name}, {plan.wish.quant}, tp {layout.tp} pp {layout.pp}: the fullest rank"
