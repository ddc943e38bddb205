"""The ranking for people: a table with reasons, how firm it is, and a chart."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence

from triton_llm_client.bench.decision.matrix import CRITERIA, Candidate, Ranked, tipping_weights, winners

__all__ = ["chart", "decision_table"]


def decision_table(ranked: Sequence[Ranked], weights: Mapping[str, float], missing: Mapping[str, str]) -> Iterator[str]:
    whole = sum(weights.values())
    yield f"{'':<4}{'':<22}{'total':>7}" + "".join(f"{name:>15}" for name in CRITERIA)
    yield f"{'':<4}{'weight':<22}{'':>7}" + "".join(f"{weights[name] / whole:>15.0%}" for name in CRITERIA)
    for place, one in enumerate(ranked, 1):
        scores = "".join(f"{one.candidate.scores[name]:>15.1f}" for name in CRITERIA)
        yield f"{place:<4}{one.candidate.name:<22}{one.total:>7.2f}{scores}"
    for name, reason in missing.items():
        yield f"{'-':<4}{name:<22} not ranked: {reason}"
    yield ""
    yield from _why(ranked)
    yield ""
    yield from _firmness([one.candidate for one in ranked], weights)


def _why(ranked: Sequence[Ranked]) -> Iterator[str]:
    for place, one in enumerate(ranked, 1):
        yield f"{place}. {one.candidate.name}"
        for name in sorted(CRITERIA, key=lambda name: -one.parts[name]):
            score, why = one.candidate.scores[name], one.candidate.why[name]
            yield f"   {name} adds {one.parts[name]:.2f} (score {score:.1f}): {why}"


def _firmness(candidates: Sequence[Candidate], weights: Mapping[str, float]) -> Iterator[str]:
    yield "How the winner depends on the weights (one at a time, the others keep their proportions):"
    for name, turns in tipping_weights(candidates, weights).items():
        told = ", ".join(f"from {percent} % {winner}" for percent, winner in turns)
        yield f"   {name}: {told}"
    shares = ", ".join(f"{name} {share:.0%}" for name, share in winners(candidates).items())
    yield f"   with any weights at all, drawn evenly: {shares}"


def chart(ranked: Sequence[Ranked]) -> str:
    """Bars of what each criterion adds, as SVG."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "decision", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(7, 0.8 + 0.5 * len(ranked)), layout="constrained")
        axes = figure.subplots()
        names = [one.candidate.name for one in reversed(ranked)]
        left = [0.0] * len(names)
        for criterion in CRITERIA:
            widths = [one.parts[criterion] for one in reversed(ranked)]
            axes.barh(names, widths, left=left, label=criterion)
            left = [begin + width for begin, width in zip(left, widths, strict=True)]
        axes.set(xlim=(0, 10), xlabel="weighted score")
        axes.legend(fontsize=7, ncols=len(CRITERIA), loc="lower center", bbox_to_anchor=(0.5, 1.0))
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
