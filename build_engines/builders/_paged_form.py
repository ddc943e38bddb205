"""The proof that an IR survives being made paged: both forms compute the same logits.

The paged form is what the engine runs. Its transformation recognises attention by pattern and can lose what it does
not know (an additive bias, say) without a word, so both forms read the same tokens here: the stateful one at once,
the paged one in two chunks over two blocks.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["TOLERANCE", "core", "paged_difference"]

TOLERANCE = 1e-3  # of the largest logit
_TOKENS, _FIRST_CHUNK, _BLOCKS = 40, 23, 2
_EXACT = {
    "KV_CACHE_PRECISION": "f32",
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    "PERFORMANCE_HINT": "LATENCY",
}
Floats = npt.NDArray[np.float32]


@functools.cache
def core() -> Any:
    """One for the process, for ever: a second one's end leaves a signal stack that is freed."""
    import openvino

    return openvino.Core()


def paged_difference(ir: Path) -> tuple[int, float]:
    """The width of the logits, and how far the paged form's are from the stateful form's, in shares of the largest."""
    stateful, vocab_size = _stateful_logits(ir)
    paged = _paged_logits(ir, vocab_size)
    if not np.isfinite(paged).all():
        raise RuntimeError("its logits are not finite")
    return vocab_size, float(np.abs(paged - stateful).max() / max(np.abs(stateful).max(), 1e-30))


def _prompt(vocab_size: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, vocab_size, _TOKENS)


def _stateful_logits(ir: Path) -> tuple[Floats, int]:
    import openvino

    compiled = core().compile_model(core().read_model(ir), "CPU", _EXACT)
    vocab_size = compiled.output(0).get_partial_shape()[-1].get_length()
    given: Mapping[str, Any] = {
        "input_ids": _prompt(vocab_size)[None],
        "attention_mask": np.ones((1, _TOKENS), np.int64),
        "position_ids": np.arange(_TOKENS)[None],
        "beam_idx": np.zeros(1, np.int32),
    }
    request = compiled.create_infer_request()
    for port in compiled.inputs:
        request.set_tensor(port, openvino.Tensor(given[_name(port, given)]))
    request.infer()
    return request.get_output_tensor(0).data.reshape(-1, vocab_size).copy(), vocab_size


def _paged_logits(ir: Path, vocab_size: int) -> Floats:
    import openvino
    from openvino._offline_transformations import paged_attention_transformation

    model = core().read_model(ir)
    paged_attention_transformation(model)
    compiled = core().compile_model(model, "CPU", _EXACT)
    request = compiled.create_infer_request()
    prompt = _prompt(vocab_size)
    caches = [port for port in compiled.inputs if "_cache." in port.get_any_name()]
    for port in caches:
        request.set_tensor(port, _blocks(port))
    logits = []
    for begin, end in ((0, _FIRST_CHUNK), (_FIRST_CHUNK, _TOKENS)):
        given: Mapping[str, Any] = {
            "input_ids": prompt[begin:end],
            "position_ids": np.arange(begin, end),
            "past_lens": np.array([begin], np.int32),
            "subsequence_begins": np.array([0, end - begin], np.int32),
            "block_indices": np.arange(_BLOCKS, dtype=np.int32),
            "block_indices_begins": np.array([0, _BLOCKS], np.int32),
            "max_context_len": np.array(end, np.int32),
        }
        for port in compiled.inputs:
            if port not in caches:
                request.set_tensor(port, openvino.Tensor(given[_name(port, given)]))
        request.infer()
        logits.append(request.get_output_tensor(0).data.reshape(-1, vocab_size).copy())
    return np.concatenate(logits)


def _name(port: Any, given: Mapping[str, Any]) -> str:
    """The port's name among those given."""
    names = set(port.get_names())
    found = next((name for name in given if name in names), None)
    if found is None:
        raise RuntimeError(f"it wants an input nobody gives: {', '.join(sorted(names))}")
    return found


def _blocks(port: Any) -> Any:
    """A KV tensor of a few blocks: its first dimension is open, the others are the plugin's."""
    import openvino

    shape = [_BLOCKS if size.is_dynamic else size.get_length() for size in port.partial_shape]
    return openvino.Tensor(port.element_type, openvino.Shape(shape))
