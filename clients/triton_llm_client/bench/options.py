"""Which artifact and which server: options that the bench's tools share."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from triton_llm_client.aio import DEFAULT_MODEL
from triton_llm_client.bench.subjects import Setting

__all__ = ["add_setting", "setting_of"]

_ADDRESSES = {
    "url": "gRPC address of a running server (default: start one)",
    "http-url": "its HTTP address",
    "gateway-url": "its gateway, http://host:port/v1",
    "metrics-url": "its metrics, http://host:port/metrics",
    "openai-url": "any service that speaks OpenAI's API, http://host:port/v1",
}


def add_setting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default=DEFAULT_MODEL, help="served name (default: %(default)s)")
    parser.add_argument("--artifact", type=Path, help="the engine artifact (default: engines/MODEL)")
    for name, what in _ADDRESSES.items():
        parser.add_argument(f"--{name}", metavar="URL", help=what)
    parser.add_argument("--openai-model", default="", metavar="NAME", help="the model's name there")
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="what the artifact was built from, for peers")


def setting_of(args: argparse.Namespace) -> Setting:
    artifact = args.artifact or Path("engines") / args.model
    return Setting(
        artifact,
        args.model,
        url=args.url,
        http_url=args.http_url,
        gateway_url=args.gateway_url,
        metrics_url=args.metrics_url,
        openai_url=args.openai_url,
        openai_model=args.openai_model,
        gguf=args.gguf or _source(artifact),
    )


def _source(artifact: Path) -> Path | None:
    """The GGUF file that the artifact names as its source: where it was, or in the cache of builds."""
    try:
        source = json.loads((artifact / "artifact.json").read_text("utf-8"))["source"]
    except (OSError, ValueError, KeyError):
        return None
    cache = Path(os.environ.get("TRITON_LLM_CACHE") or Path.home() / ".cache" / "triton-llm") / "models"
    names = [name for name in source.get("files", {}) if name.endswith(".gguf")]
    places = [place for name in names for place in (Path(source["id"]), cache / Path(name).name)]
    return next((place for place in places if place.suffix == ".gguf" and place.is_file()), None)
