"""What people see: progress while Triton starts, then the URLs and a curl line that works."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_launcher.options import ServeOptions
from triton_launcher.ports import reachable

__all__ = ["GENERATOR_SUFFIX", "LogReader", "log_tail", "say", "welcome"]

GENERATOR_SUFFIX = "-generator"
_LOADING = re.compile(r"\] \"?loading: (?P<name>[^:\s]+):(?P<version>\d+)")
_LOADED = re.compile(r"successfully loaded '(?P<name>[^']+)'")
_TAIL_LINES = 25
_USAGE = "Usage: tritonserver"


def say(text: str) -> None:
    print(text, flush=True)


class LogReader:
    """Reads what is new in tritonserver's log and turns it into lines for people."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0

    def news(self) -> Iterator[str]:
        for line in self._new_lines():
            if found := _LOADED.search(line):
                yield f"  loaded  {found['name']}"
            elif found := _LOADING.search(line):
                yield f"  loading {found['name']}"

    def _new_lines(self) -> list[str]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as log:
            log.seek(self._offset)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode("utf-8", "replace").splitlines()


def log_tail(path: Path) -> str:
    """The log's last lines, and where the rest is."""
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    lines = text.splitlines()
    if _USAGE in text:  # three screens of help hide what went wrong
        lines = [line for line in lines if line and not line.startswith((" ", "\t", _USAGE))]
    return "\n".join([*(f"  | {line}" for line in lines[-_TAIL_LINES:]), f"The whole log: {path}"])


def welcome(options: ServeOptions, models: Sequence[str]) -> str:
    """URLs, and a curl line for the first generator, or for the first scorer where there is none."""
    host, ports = reachable(options.host), options.ports
    lines = [
        "ready:",
        f"  HTTP     http://{host}:{ports.http}",
        f"  gRPC     {host}:{ports.grpc}",
        f"  metrics  http://{host}:{ports.metrics}/metrics",
        f"  health   http://{host}:{ports.health}/ready",
        f"  models   {', '.join(sorted(models))}",
    ]
    if options.gateway_port:
        lines.insert(1, f"  gateway  http://{host}:{options.gateway_port}  (chat page, OpenAI API)")
    generators = sorted(model for model in models if model.endswith(GENERATOR_SUFFIX))
    if generators:
        body = '{"text_input": "The capital of France is", "max_tokens": 24, "stream": true}'
        url = f"http://{host}:{ports.http}/v2/models/{generators[0]}/generate_stream"
        lines += ["try:", f"  curl -N {url} -d '{body}'"]
    elif models:
        lines += ["try:", f"  curl {_scoring(f'http://{host}:{ports.http}', sorted(models)[0])}"]
    if generators and options.gateway_port:
        name = generators[0].removesuffix(GENERATOR_SUFFIX)
        question = '[{"role": "user", "content": "What is the capital of France?"}]'
        body = f'{{"model": "{name}", "messages": {question}, "temperature": 0, "stream": true}}'
        url = f"http://{host}:{options.gateway_port}/v1/chat/completions"
        lines.append(f"  curl -N {url} -H 'Content-Type: application/json' -d '{body}'")
    return "\n".join([*lines, "Ctrl-C stops it."])


def _scoring(url: str, model: str) -> str:
    """A text's log-probs of a scorer; without a generator every model is one."""
    text = {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": ["The capital of France is Paris."]}
    body = {"inputs": [text], "outputs": [{"name": "sum_log_probs"}, {"name": "num_scored"}]}
    return f"{url}/v2/models/{model}/infer -d '{json.dumps(body)}'"
