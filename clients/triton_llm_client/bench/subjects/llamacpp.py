"""The peer: llama.cpp's server, in a process of its own, over the same checkpoint with weights as wide."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_llm_client.bench.load import Load
from triton_llm_client.bench.peer_gguf import peer_gguf
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.subjects import Absent, Setting
from triton_llm_client.bench.subjects.openai import OpenAISubject

__all__ = ["open_llamacpp"]

_PLACES = 16  # requests at once
_PLACE_TOKENS = 512  # prompt and output of one
_NO_CACHE: Mapping[str, Any] = {"cache_prompt": False}  # the prompts share nothing
_USAGE: Mapping[str, Any] = {"stream_options": {"include_usage": True}}


@dataclass(frozen=True)
class _Knobs:
    """What is tried, the better of which is measured. ``kv``: ggml's type of the cache; 8 is Q8_0, 1 is F16."""

    kv: int
    chunk: int

    def __str__(self) -> str:
        return f"KV {'q8_0' if self.kv == 8 else 'f16'}, n_ubatch {self.chunk}"


_TRIED = (_Knobs(kv=8, chunk=512), _Knobs(kv=1, chunk=512))


def open_llamacpp(setting: Setting) -> OpenAISubject:
    """Try each setting on the same load and keep the faster server."""
    try:
        import gguf  # noqa: F401
        import xllamacpp  # noqa: F401
    except ImportError as error:
        raise Absent(f"llama.cpp: {error}; install it with pip install 'triton-llm[bench]'.") from error
    if setting.gguf is None:
        raise Absent(
            "llama.cpp: the artifact was not built from a GGUF file that is still here, and nothing here writes one "
            "from a Hugging Face folder; say --gguf FILE."
        )
    folder = Path(tempfile.gettempdir()) / f"triton-llm-bench-{os.getuid()}"
    model = peer_gguf(setting.gguf, folder, setting.weights())
    prompts = random_prompts(8, 64, seed="trial", vocabulary=setting.vocabulary())
    load = Load(prompts, len(prompts), output_tokens=16)
    speeds = {knobs: speed for knobs in _TRIED if (speed := _trial(model, knobs, load)) is not None}
    if not speeds:
        raise Absent(f"llama.cpp: its server does not start over '{model}' in any setting: {_TRIED}.")
    return _open(model, max(speeds, key=lambda knobs: speeds[knobs]))


def _trial(model: Path, knobs: _Knobs, load: Load) -> float | None:
    """Tokens a second; None where the server refuses the setting, as it does a quantised cache of odd head sizes."""
    try:
        subject = _open(model, knobs)
    except RuntimeError:
        return None
    subject.run(Load(load.prompts[:1], 1, 4))  # warm
    speed = subject.run(load).tokens_per_second
    subject.close()
    return speed


def _open(model: Path, knobs: _Knobs) -> OpenAISubject:
    import xllamacpp

    threads = len(os.sched_getaffinity(0))
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_parallel = _PLACES * _PLACE_TOKENS, _PLACES
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_type_k = params.cache_type_v = knobs.kv
    params.n_ubatch = knobs.chunk
    params.verbosity = 0  # its log tells of every slot
    server = xllamacpp.Server(params)
    flags = (
        f"xllamacpp {xllamacpp.__version__}, {model.name}, {threads} threads, {knobs} (better of "
        f"{'; '.join(map(str, _TRIED))}), n_parallel {_PLACES}, n_ctx {params.n_ctx}, completions over SSE"
    )
    closing = ExitStack()
    closing.callback(_release, server)
    return OpenAISubject(
        "llamacpp",
        f"{server.listening_address}/v1",
        model.name,
        flags=flags,
        more={**_USAGE, **_NO_CACHE},
        reuse=False,  # it closed one just as a request went out on it
        closing=closing,
    )


def _release(server: Any) -> None:
    """Holds the server until then; it ends when nothing holds it."""
    del server
