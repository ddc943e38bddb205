"""``python -m deploy.autoscaling``: simulate the three loads, write the plot."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import yaml

from deploy.autoscaling.fleet import Server
from deploy.autoscaling.loads import HOURS, LOADS
from deploy.autoscaling.plot import plot
from deploy.autoscaling.settings import Settings
from deploy.autoscaling.simulate import simulate

CHART = Path(__file__).parents[1] / "helm" / "triton-llm"
KINDS = {"hpa": "HorizontalPodAutoscaler", "keda": "ScaledObject"}


def main() -> None:
    parser = argparse.ArgumentParser(description="what the chart's autoscaling would do")
    parser.add_argument("--helm", default=".chart-tools/helm3/helm", help="the binary (default: %(default)s)")
    parser.add_argument("--kind", choices=KINDS, default="hpa")
    parser.add_argument("--tokens-per-second", type=float, default=500.0, help="a server's goal (default: 500)")
    parser.add_argument("--most", type=int, default=1000, help="maxReplicas (default: 1000)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write an SVG")
    args = parser.parse_args()
    block = f"kind={args.kind},tokensPerSecond={args.tokens_per_second:g},maxReplicas={args.most}"
    chosen = ",".join(f"modelDefaults.autoscaling.{each}" for each in block.split(","))
    done = subprocess.run(
        [args.helm, "template", "r", CHART, "--set", chosen], check=True, capture_output=True, text=True
    )
    (manifest,) = (each for each in yaml.safe_load_all(done.stdout) if each and each["kind"] == KINDS[args.kind])
    settings = Settings.of(manifest)
    runs = {name: simulate(settings, load, HOURS[name] * 3600) for name, load in LOADS.items()}
    for name, run in runs.items():
        waiting = max(each.waiting for each in run.moments)
        print(f"{name}: at most {run.peak} replicas, {run.turns} turns, at most {waiting:.0f} requests waiting")
    if args.plot:
        args.plot.write_text(plot(runs, Server().tokens, args.tokens_per_second), "utf-8")


if __name__ == "__main__":
    main()
