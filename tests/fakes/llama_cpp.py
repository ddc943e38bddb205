"""llama.cpp itself, over a GGUF file, in a process of its own: its token ids and its log-probabilities."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["llama_ids", "llama_logprobs"]

_ASK = """
import json, sys, urllib.request
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.warmup, params.cpuparams.n_threads = 256, 1, False, 1
server = xllamacpp.Server(params)
found = []
for path, body in json.load(sys.stdin):
    url, data = server.listening_address + path, json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as answer:
        found.append(json.load(answer))
print("FOUND", json.dumps(found))
"""


def llama_ids(gguf: Path, texts: list[str]) -> list[list[int]]:
    """The ids of each text, special tokens parsed, with what the file puts around plain text."""
    bodies = [{"content": text, "add_special": True, "parse_special": True} for text in texts]
    return [answer["tokens"] for answer in _ask(gguf, "/tokenize", bodies)]


def llama_logprobs(gguf: Path, prompt: list[int], count: int) -> dict[int, float]:
    """Log-probabilities of the ``count`` likeliest ids after ``prompt``."""
    body = {"prompt": prompt, "max_tokens": 1, "logprobs": count, "temperature": 0.0}
    choice = _ask(gguf, "/v1/completions", [body])[0]["choices"][0]
    return {entry["id"]: entry["logprob"] for entry in choice["logprobs"]["content"][0]["top_logprobs"]}


def _ask(gguf: Path, path: str, bodies: list[dict[str, Any]]) -> list[Any]:
    asked = json.dumps([(path, body) for body in bodies])
    done = subprocess.run(
        [sys.executable, "-c", _ASK, str(gguf)], input=asked, capture_output=True, text=True, timeout=120
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    if not lines:
        raise RuntimeError(f"llama.cpp did not answer ({done.returncode}): {done.stderr[-2000:]}")
    answers: list[Any] = json.loads(lines[0][6:])
    return answers
