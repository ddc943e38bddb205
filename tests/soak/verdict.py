"""Whether a load ended as it must: each request once, each greedy text as it is alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from python_llm.artifact import Artifact
from python_llm.engine import load_scorer
from python_llm.errors import parse_error
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer
from tests.soak.load import run_load
from tests.soak.plan import Plan
from tests.soak.wire import Ending

__all__ = ["NearTies", "alone", "differing", "not_once", "reasons"]


def not_once(endings: Iterable[Ending]) -> list[str]:
    """Requests that did not end exactly once, or not with a true reason."""
    return [f"{ending.plan.route} {ending.plan.values}: {fault}" for ending in endings if (fault := _fault(ending))]


def reasons(endings: Iterable[Ending]) -> Mapping[str, int]:
    """How many ended how: finish reasons, error reasons, and clients that left."""
    return dict(sorted(Counter(_reason(ending) for ending in endings).items()))


def alone(url: str, name: str, plans: Iterable[Plan]) -> dict[str, list[int]]:
    """The ids of each distinct greedy body, each run while nothing else runs."""
    bodies = {plan.body: plan.alone() for plan in plans if plan.greedy}
    endings = run_load(url, name, bodies.values(), in_flight=1)
    wrong = not_once(endings)
    assert not wrong, f"alone, {len(wrong)} did not end well: {wrong[:3]}"
    return {ending.plan.body: ending.ids for ending in endings}


def differing(endings: Iterable[Ending], solo: Mapping[str, Sequence[int]]) -> list[tuple[Ending, int]]:
    """Greedy answers that are no beginning of what they are alone, and where they part."""
    found = []
    for ending in endings:
        if ending.plan.greedy and not ending.errors:
            expected = solo[ending.plan.body][: len(ending.ids)]
            if _whole(ending):
                expected = solo[ending.plan.body]
            if ending.ids != expected:
                pairs = zip(ending.ids, expected, strict=False)
                found.append((ending, next((i for i, (a, b) in enumerate(pairs) if a != b), len(expected))))
    return found


@dataclass
class NearTies:
    """Reads the reference's logits where two greedy answers part."""

    artifact: Path
    serving: ServingConfig

    def is_tie(self, ending: Ending, solo: Sequence[int], at: int) -> bool:
        """Whether the two tokens lie closer than batched arithmetic can tell apart; says so."""
        if at >= min(len(ending.ids), len(solo)):
            return False
        prompt = Tokenizer.load(self.artifact).encode(str(ending.plan.values["text_input"]), special_tokens=True)
        scorer = load_scorer(Artifact.open(self.artifact), self.serving)
        rows = np.concatenate([np.array(part) for part in scorer.logits([*prompt, *solo[:at]])])
        gap = abs(float(rows[-1][solo[at]] - rows[-1][ending.ids[at]]))
        exact = self.serving.inference_precision == "f32"
        most = 1e-3 * float(np.abs(rows[-1]).max()) if exact else 0.1 * float(rows[-1].std())
        print(f"near-tie of {ending.plan.request_id} at token {at}: gap {gap:.2g}, at most {most:.2g}")
        return gap <= most


def _fault(ending: Ending) -> str:
    if ending.left:
        return "" if ending.ends <= 1 and not ending.after_the_end else f"{ending.ends} ends"
    if ending.ends != 1 or ending.after_the_end:
        return f"{ending.finals} finals, {ending.errors}, {ending.after_the_end} messages after the end"
    if ending.plan.malformed != bool(ending.errors):
        return f"{'no error' if ending.plan.malformed else ending.errors}"
    return ""


def _reason(ending: Ending) -> str:
    if ending.left:
        return "left"
    if ending.errors:
        known = parse_error(ending.errors[0])
        return known.reason if known else "refused by Triton"
    return ending.finish_reasons[-1] if ending.finish_reasons else "no reason"


def _whole(ending: Ending) -> bool:
    return not ending.left and ending.finish_reasons[-1:] in (["length"], ["stop"])
