"""An engine against its reference, by Polygraphy's comparator, on random ids and on the project's own text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from build_engines.builders._onnx.export import INPUTS, OUTPUT
from build_engines.drift import Drift, DriftBounds, DriftReport

__all__ = ["batches_of", "compare", "onnx_runner", "torch_runner"]

_SEED = 20261201
_RANDOM = ((1, 1), (2, 9), (3, 33))  # rows, tokens; the last row of several is half padding
_REAL_TOKENS = 96
_REAL_ROWS = 4
Feed = OrderedDict[str, npt.NDArray[np.int64]]


def batches_of(vocab_size: int, texts: Sequence[Sequence[int]]) -> dict[str, Feed]:
    """Name → input: random ids, and the beginnings of ``texts`` as one batch of unequal lengths."""
    generator = np.random.default_rng(_SEED)
    found = {}
    for rows, length in _RANDOM:
        ids = [generator.integers(0, vocab_size, length).tolist() for _ in range(rows)]
        ids[-1] = ids[-1] if rows == 1 else ids[-1][: length // 2]
        found[f"random {rows} x {length}"] = _feed(ids)
    real = [list(text[: max(1, _REAL_TOKENS // (number + 1))]) for number, text in enumerate(texts[:_REAL_ROWS])]
    return {**found, f"text {len(real)} x {max(map(len, real))}": _feed(real)}


def compare(
    reference: tuple[str, Any], engine: tuple[str, Any], batches: dict[str, Feed], bounds: DriftBounds
) -> DriftReport:
    """Run both runners, each a name and a Polygraphy runner, and hold their logits at tokens to ``bounds``.

    Logits at padding mean nothing and are set to 0 in both.
    """
    from polygraphy.comparator import Comparator, SimpleCompareFunc

    masks = iter([feed["attention_mask"] for feed in batches.values()])
    check = SimpleCompareFunc(
        check_error_stat=bounds.statistic, atol=bounds.absolute, rtol=bounds.relative, infinities_compare_equal=False
    )
    with _quiet_polygraphy():
        results = Comparator.run([engine[1], reference[1]], data_loader=list(batches.values()))
        (_, ours), (_, theirs) = results.items()
        drifts = []
        for name, mine, other in zip(batches, ours, theirs, strict=True):
            mask = next(masks).astype(bool)[..., None]
            for result in (mine, other):
                result[OUTPUT] = np.where(mask, np.asarray(result[OUTPUT], np.float32), np.float32(0))
            found = check(mine, other)[OUTPUT]
            drifts.append(_drift(name, found))
    return DriftReport(reference[0], engine[0], version("polygraphy"), bounds, tuple(drifts))


def onnx_runner(model: Path) -> tuple[str, Any]:
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx

    session = SessionFromOnnx(str(model), providers=["CPUExecutionProvider"])
    return f"ONNX Runtime {version('onnxruntime')}", OnnxrtRunner(session, name="onnxruntime")


def torch_runner(module: Any) -> tuple[str, Any]:
    """The source itself on the CPU; Polygraphy's own runner of torch modules wants a GPU."""
    import torch
    from polygraphy.backend.base import BaseRunner
    from polygraphy.common import TensorMetadata

    class TorchRunner(BaseRunner):  # type: ignore[misc]
        def get_input_metadata_impl(self) -> Any:
            metadata = TensorMetadata()
            for name in INPUTS:
                metadata.add(name, dtype=np.int64, shape=(-1, -1))
            return metadata

        def activate_impl(self) -> None:
            pass

        def deactivate_impl(self) -> None:
            pass

        def infer_impl(self, feed_dict: Any) -> Any:
            with torch.inference_mode():
                logits = module(**{name: torch.from_numpy(np.asarray(feed_dict[name])) for name in INPUTS})
            self.inference_time = 0.0
            return OrderedDict([(OUTPUT, logits.numpy())])

    return "PyTorch fp32", TorchRunner(name="pytorch")


def _feed(rows: Sequence[Sequence[int]]) -> Feed:
    shape = len(rows), max(map(len, rows))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        mask[place, : len(row)] = 1
    return OrderedDict([("input_ids", ids), ("attention_mask", mask)])


def _drift(name: str, found: Any) -> Drift:
    return Drift(
        inputs=name,
        max_absolute=_figure(found.max_absdiff),
        max_relative=_figure(found.max_reldiff),
        mean_absolute=_figure(found.mean_absdiff),
        mean_relative=_figure(found.mean_reldiff),
        passed=bool(found),
    )


def _figure(value: Any) -> float:
    return float(f"{float(value):.6g}")


@contextmanager
def _quiet_polygraphy() -> Iterator[None]:
    from polygraphy.logger import G_LOGGER

    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
        yield
