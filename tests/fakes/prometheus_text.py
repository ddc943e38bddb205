"""What a metrics port says, as Prometheus reads its text format."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass, field

__all__ = ["Scrape", "scrape"]

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Labels = frozenset[tuple[str, str]]


@dataclass
class Scrape:
    """``samples`` by name and labels; ``repeated`` are those that were told twice."""

    types: dict[str, str] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)

    def value(self, name: str, **labels: str) -> float:
        """The one sample of that name with these labels, whatever other labels it has; 0 where there is none."""
        found = [v for (n, has), v in self.samples.items() if n == name and set(labels.items()) <= has]
        assert len(found) <= 1, f"{name} {labels}: {found}"
        return found[0] if found else 0.0

    def of(self, model: str) -> dict[tuple[str, Labels], float]:
        """Samples of our table and NVIDIA's that carry this model."""
        ours = ("triton_llm_", "nv_trt_llm_")
        return {key: v for key, v in self.samples.items() if ("model", model) in key[1] and key[0].startswith(ours)}

    def _take(self, line: str) -> None:
        if line.startswith("# "):
            _, what, name, text = line.split(" ", 3)
            table = {"TYPE": self.types, "HELP": self.helps}[what]
            self.repeated += [line] if name in table else []
            table[name] = text
        elif line:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            key = match["name"], frozenset(_LABEL.findall(match["labels"] or ""))
            self.repeated += [line] if key in self.samples else []
            self.samples[key] = float(match["value"])


def scrape(url: str) -> Scrape:
    told = Scrape()
    with urllib.request.urlopen(url, timeout=60) as answer:
        for line in answer.read().decode("utf-8").splitlines():
            told._take(line)
    return told
