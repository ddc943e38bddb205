"""The judged criteria and the weights, out of a YAML file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from python_llm.errors import CallerMistake
from triton_llm_client.bench.decision.matrix import CRITERIA

__all__ = ["JUDGED", "SHIPPED", "Judged", "Opinion", "read_judged"]

SHIPPED = Path(__file__).with_name("judged.yaml")
MEASURED = ("performance", "cost")
JUDGED = tuple(name for name in CRITERIA if name not in MEASURED)


@dataclass(frozen=True)
class Opinion:
    score: float
    reason: str


@dataclass(frozen=True)
class Judged:
    """One candidate: its subject in the bench's record, and what was judged of it."""

    name: str
    subject: str
    opinions: Mapping[str, Opinion]
    price_per_hour: float | None = None


def read_judged(file: Path) -> tuple[dict[str, float], list[Judged]]:
    """The weights, and the candidates.

    Raises:
        CallerMistake: the file cannot be read, a key that is none, a score out of 0 to 10, or one without a reason.
    """
    import yaml

    try:
        record = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise CallerMistake(f"judged criteria '{file}': {error}; see {SHIPPED} for the form.") from error
    record = _mapping(str(file), record)
    _known(str(file), record, ("weights", "candidates"))
    candidates = _mapping(f"{file}, candidates", record.get("candidates"))
    return weights_of(record.get("weights")), [_judged(name, one) for name, one in candidates.items()]


def weights_of(said: Any) -> dict[str, float]:
    """A weight for each criterion; raises CallerMistake where one is missing, unknown, negative, or all are 0."""
    weights = _mapping("weights", said)
    _known("weights", weights, CRITERIA)
    missing = [name for name in CRITERIA if name not in weights]
    if missing:
        raise CallerMistake(f"weights: {', '.join(missing)} missing; give each criterion a weight, 0 if need be.")
    if any(not _is_number(value) or value < 0 for value in weights.values()) or not sum(weights.values()):
        raise CallerMistake(f"weights {weights}: they must be numbers of at least 0, and one above it.")
    return {name: float(weights[name]) for name in CRITERIA}


def _judged(name: str, said: Any) -> Judged:
    fields = _mapping(f"candidate '{name}'", said)
    _known(f"candidate '{name}'", fields, ("subject", "price_per_hour", *JUDGED))
    if not isinstance(fields.get("subject"), str):
        raise CallerMistake(f"candidate '{name}': no subject; name the one of the bench that measures it.")
    opinions = {criterion: _opinion(f"candidate '{name}', {criterion}", fields.get(criterion)) for criterion in JUDGED}
    return Judged(name, fields["subject"], opinions, fields.get("price_per_hour"))


def _opinion(where: str, said: Any) -> Opinion:
    fields = _mapping(where, said)
    _known(where, fields, ("score", "reason"))
    score, reason = fields.get("score"), fields.get("reason")
    if not isinstance(score, (int, float)) or isinstance(score, bool) or not 0 <= score <= 10:
        raise CallerMistake(f"{where}: score {score!r}; it must be a number from 0 to 10.")
    if not isinstance(reason, str) or not reason.strip():
        raise CallerMistake(f"{where}: no reason; a judgement without one cannot be argued with, so write it down.")
    return Opinion(float(score), reason)


def _mapping(where: str, said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise CallerMistake(f"{where}: {said!r}; it must be a mapping.")
    return said


def _known(where: str, fields: Mapping[str, Any], names: Iterable[str]) -> None:
    for key in fields:
        if key not in names:
            close = difflib.get_close_matches(str(key), names, n=1)
            remedy = f"did you mean '{close[0]}'?" if close else f"keys are {', '.join(names)}."
            raise CallerMistake(f"{where}: unknown key '{key}'; {remedy}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
