"""``make soak``: the load test's full figures, an hour at saturation, and chaos again and again.

Exit code 1 when anything was found that must not be; ``--page`` writes what was seen between the page's two marks.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from python_llm.machine import usable_cpus
from python_llm.settings import ServingConfig
from tests.soak.plan import Route
from tests.soak.served import TINY, served, tiny_artifact
from tests.soak.stages import Seen, chaos, long_load, saturation, store_chaos
from tests.soak.store_events import storing

BEGIN, END = "<!-- soak: made by `make soak` -->", "<!-- soak: end -->"
_ROUTES: Mapping[str, Sequence[Route]] = {"direct": ("generator", "generator", "unary"), "ensemble": ("ensemble",)}
_LIBRARIES = ("nvidia-pytriton", "openvino")


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="triton-llm-soak-") as scratch:
        folder = Path(scratch)
        artifact = args.artifact.resolve() if args.artifact else tiny_artifact(folder)
        serving = ServingConfig() if args.artifact else TINY
        what = f"`{args.artifact.name}` with default knobs" if args.artifact else "a tiny checkpoint, f32"
        found: list[Seen] = []
        for seen in _stages(args, folder, artifact, serving):
            found.append(seen)
            if args.page:  # each stage at once: what came before a stage that fails is not lost
                _write(args.page, _page(found, what, _command(args)))
    print(_page(found, what, _command(args)))
    return 1 if any(seen.faults for seen in found) else 0


def _stages(args: argparse.Namespace, folder: Path, artifact: Path, serving: ServingConfig) -> Iterator[Seen]:
    """A fresh server for each kind, so that one's memory is not the other's."""
    for name, routes in _ROUTES.items():
        if args.requests:
            with served(folder / name, artifact, serving) as running:
                yield long_load(running, args.seed, args.requests, routes)
    if args.minutes:
        with served(folder / "saturation", artifact, serving) as running:
            yield saturation(running, args.seed, args.minutes)
    if args.rounds:
        with served(folder / "chaos", artifact, serving) as running:
            yield chaos(running, args.seed, args.rounds)
        with storing(folder / "store", artifact, serving) as stored:
            yield store_chaos(stored, args.seed, args.rounds)


def _page(found: Sequence[Seen], what: str, command: str) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    lines = [f"`{command}` on {usable_cpus()} cores ({platform.machine()}), {versions}; {what}.", ""]
    for seen in found:
        lines += [f"### {seen.title}", "", *(f"- {line}" for line in seen.lines)]
        lines += [f"- **fault**: {fault}" for fault in seen.faults] or ["- no fault"]
        lines.append("")
    return "\n".join(lines)


def _write(page: Path, text: str) -> None:
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", "utf-8")


def _command(args: argparse.Namespace) -> str:
    return f"make soak REQUESTS={args.requests} MINUTES={args.minutes:g} ROUNDS={args.rounds}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, metavar="N", help="of each long load (default: 2000)")
    parser.add_argument("--minutes", type=float, default=60.0, metavar="M", help="at saturation (default: 60)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of chaos (default: 5)")
    parser.add_argument("--seed", type=int, default=20_261_130)
    parser.add_argument("--artifact", type=Path, metavar="FOLDER", help="served in place of a tiny checkpoint")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write what was seen between this page's marks")
    return parser


if __name__ == "__main__":
    os.nice(5)
    raise SystemExit(main())
