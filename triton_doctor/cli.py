"""``triton-llm doctor``: `examine` with its set-up as flags."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from triton_doctor.checks import CHECKS, examine
from triton_doctor.finding import Finding
from triton_doctor.machine import Machine
from triton_doctor.self_test import self_test
from triton_doctor.setup import Setup
from triton_doctor.symptoms import SYMPTOMS
from triton_launcher.ports import Ports

__all__ = ["add_arguments", "report", "run"]

_MARKS = {"ok": "ok     ", "advice": "advice ", "wrong": "WRONG  ", "unknown": "unknown"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repository", type=Path, default=Setup.repository, help="default: model_repository")
    parser.add_argument(
        "--run-dir", type=Path, default=Setup.run_dir, metavar="DIR", help="the launcher's (default: run)"
    )
    parser.add_argument("--host", default=os.environ.get("HOST") or Setup.host, help="(default: %(default)s)")
    for name, port in vars(Ports()).items():
        default = os.environ.get(f"{name.upper()}_PORT") or port
        parser.add_argument(f"--{name}-port", type=int, default=default, metavar="PORT", help="(default: %(default)s)")
    parser.add_argument("--symptom", choices=tuple(SYMPTOMS), help="what is seen: only the checks that explain it")
    parser.add_argument("--self-test", action="store_true", help="measure bandwidth and token rate too: a minute")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """1 where something is wrong."""
    machine = Machine()
    ports = Ports(args.http_port, args.grpc_port, args.metrics_port, args.health_port)
    setup = Setup(args.repository, args.run_dir, args.host, ports)
    symptom = SYMPTOMS.get(args.symptom or "")
    findings = examine(machine, setup, symptom.areas if symptom else tuple(CHECKS))
    if args.self_test:
        findings += self_test(machine, setup)
    if args.json:
        print(json.dumps({"symptom": args.symptom, "findings": [asdict(finding) for finding in findings]}))
    else:
        print(report(findings, args.symptom))
    return int(any(finding.state == "wrong" for finding in findings))


def report(findings: Sequence[Finding], symptom: str | None = None) -> str:
    """What is wrong first, each with what to do next; then a word on the whole."""
    order = ("wrong", "advice", "unknown", "ok")
    lines = []
    for finding in sorted(findings, key=lambda finding: order.index(finding.state)):
        lines.append(f"{_MARKS[finding.state]} {finding.area}: {finding.text}")
        if finding.next:
            lines.append(f"        next: {finding.next}")
    count = sum(finding.state == "wrong" for finding in findings)
    lines.append(f"{count} wrong." if count else "nothing wrong.")
    if symptom:
        told = SYMPTOMS[symptom]
        lines = [told.means, "", *lines, "", "then:", *(f"  {step}" for step in told.next)]
    return "\n".join(lines)
