"""Whatever a generator says, over either wire: the client reads what was meant."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_llm.contract import GENERATOR
from python_llm.engine import GenerateRequest, PromptLogProbs, SamplingParams, Usage
from python_llm.outputs import OutputWriter, chosen_outputs
from python_llm.response import output_arrays
from python_llm.response_facts import Part, RequestFacts
from python_llm.stream import Delta
from triton_llm_client.chunks import Chunk, chunks_of
from triton_llm_client.http_transport import _chunks as http_chunks
from triton_llm_client.tensors import pack, unpack

VOCABULARY: Any = {0: b"a", 1: b" b", 2: "é".encode()[:1], 3: "é".encode()[1:], 4: "\u2028".encode(), 5: b""}
EVERYTHING = chosen_outputs(
    {
        "return_log_probs": True,
        "top_log_probs": 2,
        "return_logprobs": True,
        "return_prompt_log_probs": True,
        "return_stop_reason": True,
        "return_perf_metrics": True,
    }
)
ids = st.integers(0, len(VOCABULARY) - 1)
log_probs = st.integers(-64, 0).map(float)
tops = st.lists(st.tuples(ids, log_probs), min_size=2, max_size=2).map(tuple)


@st.composite
def parts(draw: Any, index: int) -> Part:
    tokens = tuple(draw(st.lists(ids, max_size=4)))
    count = len(tokens)
    return Part(
        index,
        Delta(draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=6)), tokens),
        tuple(draw(st.lists(log_probs, min_size=count, max_size=count))),
        tuple(draw(st.lists(tops, min_size=count, max_size=count))),
        draw(log_probs),
        count,
        VOCABULARY,
        draw(st.sampled_from(["stop", "length", "cancelled", "timeout"])),
        draw(st.sampled_from(["", "7", "é"])),
    )


answers = st.integers(1, 4).flatmap(lambda count: st.tuples(*(parts(index) for index in range(count))))


def said(answer: tuple[Part, ...]) -> dict[str, Any]:
    request = GenerateRequest("r", (1, 2, 3), 4, sampling=SamplingParams(seed=2**64 - 1))
    prompt = PromptLogProbs((-1.0, -2.0), (((0, -1.0),), ((2, -3.0),)))
    facts = RequestFacts(request, 5, VOCABULARY, prompt, [Usage(3, 4, first_scheduled_ns=6)])
    writer = OutputWriter(EVERYTHING, several=len(answer) > 1, in_ensemble=False)
    return output_arrays(writer.write(facts, answer, first=True, last=True), GENERATOR)


def over_grpc(arrays: dict[str, Any]) -> tuple[Chunk, ...]:
    dtypes = {row.name: row.dtype for row in GENERATOR.outputs}
    texts = {name: [item.decode() for item in array.flat] for name, array in arrays.items() if dtypes[name] == "BYTES"}
    raws = {name: pack("BYTES", texts[name]) if name in texts else array.tobytes() for name, array in arrays.items()}
    return chunks_of({name: unpack(dtypes[name], raw) for name, raw in raws.items()})


def over_http(arrays: dict[str, Any]) -> tuple[Chunk, ...]:
    fields: dict[str, Any] = {"id": "r", "model_name": "m", "model_version": "1"}
    for name, array in arrays.items():
        flat = [item.decode() if isinstance(item, bytes) else np.asarray(item).item() for item in array.flat]
        fields[name] = flat[0] if len(flat) == 1 else flat
    return http_chunks(json.loads(json.dumps(fields)), 0)


@pytest.mark.parametrize("wire", [over_grpc, over_http])
@given(answer=answers)
def test_an_answer_survives_the_wire(wire: Any, answer: tuple[Part, ...]) -> None:
    chunks = wire(said(answer))
    assert len(chunks) == len(answer)
    for chunk, part in zip(chunks, answer, strict=True):
        assert (chunk.sequence_index, chunk.text, chunk.output_ids) == (part.index, part.delta.text, part.delta.ids)
        assert (chunk.finish_reason, chunk.stop_reason) == (part.reason, part.stop_reason or None)
        assert (chunk.log_probs, chunk.log_prob_sum) == (part.log_probs, part.log_prob_sum)
        assert [[(one.id, one.log_prob) for one in top] for top in chunk.top_log_probs] == list(
            map(list, part.top_log_probs)
        )
        assert all(one.raw == VOCABULARY[one.id] for top in chunk.top_log_probs for one in top)
        assert [(token.id, token.raw) for token in chunk.tokens] == [(i, VOCABULARY[i]) for i in part.delta.ids]
        assert (chunk.input_tokens, chunk.output_tokens, chunk.seed) == (3, part.output_tokens, 2**64 - 1)
    assert chunks[0].prompt_log_probs == (-1.0, -2.0)
    assert [top[0].id for top in chunks[0].prompt_top_log_probs] == [0, 2]
    assert chunks[-1].metrics is not None
    assert (chunks[-1].metrics.arrival_time_ns, chunks[-1].metrics.first_scheduled_time_ns) == (5, 6)
