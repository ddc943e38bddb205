"""llama.cpp's own tokenizer of a GGUF file, asked over its server's /tokenize in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

__all__ = ["llama_ids"]

_ASK = """
import json, sys, urllib.request
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.warmup, params.cpuparams.n_threads = 64, 1, False, 1
server = xllamacpp.Server(params)
found = []
for text in json.load(sys.stdin):
    body = json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()
    request = urllib.request.Request(server.listening_address + "/tokenize", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        found.append(json.load(answer)["tokens"])
print("IDS", json.dumps(found))
"""


def llama_ids(gguf: Path, texts: list[str]) -> list[list[int]]:
    """The ids of each text, special tokens parsed, with what the file puts around plain text."""
    command = [sys.executable, "-c", _ASK, str(gguf)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stdout.splitlines() if line.startswith("IDS ")]
    if not lines:
        raise RuntimeError(f"llama.cpp gave no ids ({done.returncode}): {done.stderr[-2000:]}")
    ids: list[list[int]] = json.loads(lines[0][4:])
    return ids
