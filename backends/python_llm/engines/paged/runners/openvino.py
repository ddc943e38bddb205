"""The OpenVINO runner: an exported IR made paged, with KV tensors that belong to us.

``paged_attention_transformation`` replaces the IR's stateful attention by one that reads and writes numbered
blocks. The layout of a block depends on plugin, precision and device; only ``block_size`` is read from it.

Where it pays the model is there in two forms over the same blocks: one for single tokens, one that reads prompts.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov
from openvino._offline_transformations import paged_attention_transformation

from python_llm.engines.paged.kv_budget import block_count
from python_llm.engines.paged.runner import ForwardBatch
from python_llm.engines.paged.runners.openvino_graph import gather_before_head
from python_llm.engines.paged.runners.openvino_options import identity, prefill_properties, properties
from python_llm.settings import ServingConfig

__all__ = ["PREFILL_TOKENS", "OpenVinoRunner"]

PREFILL_TOKENS = 48  # of a step, from which on the form that reads prompts is the faster one


class OpenVinoRunner:
    """A compiled IR and its KV blocks; ``forward`` releases the GIL while the model runs."""

    def __init__(
        self, model_xml: Path, serving: ServingConfig, *, quantised: bool = False, context_length: int = 1 << 20
    ) -> None:
        """Read, transform and compile; allocate as many blocks as ``kv_cache_bytes`` says (touched when used).

        Raises:
            CallerMistake: the budget holds no two blocks.
        """
        core = _core()
        model = core.read_model(model_xml)
        paged_attention_transformation(model)
        gather_before_head(model)
        told = properties(serving, quantised)
        prefill = prefill_properties(serving, told, model_xml.with_suffix(".bin"))
        self.identity = identity(core, told, prefill)
        compiled = core.compile_model(model, "CPU", told)
        self._request: Any = compiled.create_infer_request()
        self._prefill = core.compile_model(model, "CPU", prefill).create_infer_request() if prefill else None
        self._names = {name for port in compiled.inputs for name in port.get_names()}
        caches = [port for port in compiled.inputs if "_cache." in port.get_any_name()]
        value_shape = next(p for p in caches if p.get_any_name().startswith("value_cache")).get_partial_shape()
        self.block_size = value_shape[2].get_length()
        self.vocab_size = compiled.output(0).get_partial_shape()[-1].get_length()
        block_bytes = sum(_block_bytes(port) for port in caches)
        self.block_count = block_count(
            serving, block_bytes=block_bytes, block_size=self.block_size, context_length=context_length
        )
        self._caches = {port.get_any_name(): self._allocate(port) for port in caches}

    @property
    def has_prefill_form(self) -> bool:
        return self._prefill is not None

    def forward(self, batch: ForwardBatch) -> npt.NDArray[np.float32]:
        request = self._request if self._prefill is None or not _reads_prompts(batch) else self._prefill
        wanted = batch.wanted if len(batch.wanted) else np.zeros(1, np.int64)  # the head wants at least one row
        feed = {
            "input_ids": batch.token_ids,
            "position_ids": batch.positions,
            "past_lens": batch.past_lens,
            "subsequence_begins": batch.subsequence_begins,
            "block_indices": batch.block_indices,
            "block_indices_begins": batch.block_begins,
            "max_context_len": np.array(batch.longest, np.int32),
            "wanted_rows": wanted,
        }
        for name, array in feed.items():
            if name in self._names:
                request.set_tensor(name, ov.Tensor(array))
        request.infer()
        logits = request.get_output_tensor(0).data
        return np.asarray(logits.reshape(-1, logits.shape[-1])[: len(batch.wanted)])

    def export_blocks(self, blocks: Sequence[int]) -> Mapping[str, npt.NDArray[Any]]:
        return {name: cache[list(blocks)] for name, cache in self._caches.items()}

    def import_blocks(self, blocks: Sequence[int], content: Mapping[str, npt.NDArray[Any]]) -> None:
        for name, cache in self._caches.items():
            cache[list(blocks)] = content[name]

    def close(self) -> None:
        self._caches.clear()
        self._request = self._prefill = None  # and with them the compiled models, and their hold on the blocks

    def _allocate(self, port: Any) -> npt.NDArray[Any]:
        shape = [self.block_count, *(dim.get_length() for dim in list(port.get_partial_shape())[1:])]
        array = np.zeros(shape, port.get_element_type().to_dtype())  # pages are touched when first written
        for request in (self._request, self._prefill):
            if request is not None:
                request.set_tensor(port.get_any_name(), ov.Tensor(array, shared_memory=True))
        return array


def _reads_prompts(batch: ForwardBatch) -> bool:
    """Whether most tokens are a prompt's and no sequence wants more than one row: many rows need all their bits."""
    count = len(batch.token_ids)
    return count >= max(PREFILL_TOKENS, 2 * len(batch.past_lens)) and len(batch.wanted) <= len(batch.past_lens)


@functools.cache
def _core() -> ov.Core:
    """One for the process, for ever.

    A Core's CPU plugin sets its thread's signal stack. One that goes after a second came, or in another thread,
    leaves a stack that is freed: the next handled signal kills the process.
    """
    return ov.Core()


def _block_bytes(port: Any) -> int:
    elements = 1
    for dim in list(port.get_partial_shape())[1:]:
        elements *= dim.get_length()
    return elements * int(port.get_element_type().size)
