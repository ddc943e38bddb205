"""``triton-llm build``: `build_engines.build.build` with its knobs as flags."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.artifact import folder_size
from build_engines.build import BuildPlan, BuildResult, build, make_plan
from build_engines.builders import GpuBuilder, check_spec, find_builder, role_of
from build_engines.cli_gpu import add_gpu_arguments, gpu_knobs
from build_engines.progress import for_stream
from build_engines.quality_bounds import Quality
from build_engines.spec import DEFAULT_MODEL, INT4_RESTS, QUANTISATIONS, ROLES, EngineSpec
from python_llm.records import read_record

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        default=DEFAULT_MODEL,
        help=f"hub id, Hugging Face folder, .gguf file, or '{DEFAULT_MODEL}' (default)",
    )
    parser.add_argument("--name", default="", help="the artifact's name (default: the model's own)")
    parser.add_argument("--engine", default="auto", help="auto, or a builder's name (default: auto)")
    parser.add_argument("--role", default="", help=f"what it is for: {', '.join(ROLES)} (default: the engine's own)")
    parser.add_argument("--quant", default="", help=f"{', '.join(QUANTISATIONS)} (default: int8; of a scorer none)")
    parser.add_argument("--group-size", type=int, default=0, help="int4: weights that share a scale (default: chosen)")
    parser.add_argument(
        "--int4-ratio", type=float, default=1.0, help="int4: share of the inner weights at 4 bits, the rest int8"
    )
    parser.add_argument(
        "--int4-rest", default="int8", help=f"int4: what the other layers are: {', '.join(INT4_RESTS)} (default: int8)"
    )
    parser.add_argument(
        "--allow-quality-loss", action="store_true", help="accept an engine that misses its quality bounds"
    )
    parser.add_argument(
        "--no-quality-check", action="store_true", help="do not measure the engine against its source in fp32"
    )
    parser.add_argument("--revision", default="", help="of a hub id: branch, tag or commit")
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="run the Python files inside the checkpoint, where it needs them (default: refuse such a checkpoint)",
    )
    parser.add_argument("--offline", action="store_true", help="use only what is on this machine")
    for limit in ("max-batch-size", "max-input-len", "max-seq-len", "max-num-tokens"):
        parser.add_argument(f"--{limit}", type=int, default=0, help="limit of engines that are compiled with limits")
    add_gpu_arguments(parser)
    parser.add_argument("--engines", type=Path, default=Path("engines"), help="folder of artifacts (default: engines)")
    parser.add_argument("--force", action="store_true", help="replace an artifact of the same name")
    parser.add_argument("--verify", action="store_true", help="check a finished artifact's files in full before reuse")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def run(args: argparse.Namespace) -> int:
    spec = EngineSpec(
        model=args.model,
        name=args.name,
        engine=args.engine,
        role=args.role,
        quant=args.quant or _default_quant(args.engine, args.role),
        group_size=args.group_size,
        int4_ratio=args.int4_ratio,
        int4_rest=args.int4_rest,
        allow_quality_loss=args.allow_quality_loss,
        check_quality=not args.no_quality_check,
        revision=args.revision,
        offline=args.offline,
        trust_remote_code=args.trust_remote_code,
        force=args.force,
        max_batch_size=args.max_batch_size,
        max_input_len=args.max_input_len,
        max_seq_len=args.max_seq_len,
        max_num_tokens=args.max_num_tokens,
        **gpu_knobs(args),
    )
    if args.dry_run and isinstance(builder := find_builder(spec.engine, spec.role), GpuBuilder):
        return _say(spec, builder, args)
    progress = for_stream()
    if args.dry_run:
        plan = make_plan(spec, args.engines, progress, verify=args.verify)
        progress.close()
        print(json.dumps(_plan_record(plan)) if args.json else _plan_line(plan))
        return 0
    result = build(spec, args.engines, progress, verify=args.verify)
    print(json.dumps(result.to_record()) if args.json else _last_line(result))
    return 0


def _default_quant(engine: str, role: str) -> str:
    """A scorer measures the model, so it begins unquantised."""
    return "none" if role_of(find_builder(engine, role)) == "scorer" else "int8"


def _say(spec: EngineSpec, builder: GpuBuilder, args: argparse.Namespace) -> int:
    """A dry run of a builder that needs a GPU to build and none to say how. A plan with a failed check is exit 2."""
    check_spec(spec, builder)
    said = builder.dry_run(spec, args.engines)
    print(json.dumps(said.to_record()) if args.json else said)
    return 0 if said.sound else 2


def _plan_record(plan: BuildPlan) -> dict[str, object]:
    return {
        "artifact": str(plan.path),
        "action": plan.action,
        "source": plan.checkpoint.id,
        "source_size": plan.checkpoint.size,
        "engine": plan.builder.engine,
        "quant": plan.spec.quant,
        "content_key": plan.key,
        "estimate": plan.estimate.to_record(),
    }


def _plan_line(plan: BuildPlan) -> str:
    return (
        f"would {plan.action} {plan.path}: {plan.checkpoint.id} ({_megabytes(plan.checkpoint.size)}), engine "
        f"{plan.builder.engine}, quant {plan.spec.quant}" + ("" if plan.action == "reuse" else f"; {plan.estimate}")
    )


def _last_line(result: BuildResult) -> str:
    manifest = result.manifest
    done = "unchanged" if result.reused else "built"
    size, source = folder_size(manifest), result.source_size
    quality = f"; {_quality(manifest.quality)}" if manifest.quality else ""
    return (
        f"{done} {result.path} ({_weights(manifest.quantisation)}): {_megabytes(size)}, "
        f"{size / max(source, 1):.2f} of the source's {_megabytes(source)}{quality}; next: triton-llm repo add "
        f"{result.path.name}"
    )


def _weights(quantisation: Mapping[str, Any]) -> str:
    group, share = quantisation.get("group_size"), quantisation.get("int4_share")
    text = f"{quantisation.get('weights')}{f', groups of {group}' if group else ''}"
    rest = quantisation.get("int4_rest", "int8")
    return text + (f", {share:.0%} of the weights at 4 bits, the rest {rest}" if share is not None else "")


def _quality(record: Mapping[str, Any]) -> str:
    found = read_record(Quality, record["measured"], "quality")
    text = f"top-1 agreement {found.agreement:.3f}, KL {found.kl:.4f}, perplexity x{found.perplexity_ratio:.3f}"
    return text + (f" (accepted: {'; '.join(record['missed'])})" if record["missed"] else "")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
