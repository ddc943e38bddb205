"""Tokens per second of one stream on a served model."""

from __future__ import annotations

import json
import time
import urllib.request

from python_llm.contract import generator_model
from triton_doctor.setup import Setup

__all__ = ["token_rate"]

_TOKENS = 64
_SECONDS = 25.0  # for all of them: what is slower is measured on those that came


def token_rate(setup: Setup, name: str) -> float:
    """Between the first token and the last; raises OSError or RuntimeError where there is no answer."""
    body = {
        "text_input": "1",
        "max_tokens": _TOKENS,
        "ignore_eos": True,
        "stream": True,
        "timeout": int(_SECONDS * 1e6),
    }
    url = f"{setup.url('http')}/v2/models/{generator_model(name)}/generate_stream"
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
    times, tokens = [], 0
    with urllib.request.urlopen(request, timeout=_SECONDS * 2) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if "error" in event:
                    raise RuntimeError(str(event["error"]))
                ids = event.get("output_ids", [])
                tokens += len(ids) if isinstance(ids, list) else 1
                times.append(time.monotonic())
    if tokens < 2 or len(times) < 2:
        raise RuntimeError(f"'{name}' gave {tokens} tokens; two at least are needed to time it")
    return (tokens - 1) / (times[-1] - times[0])
