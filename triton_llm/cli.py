"""The verb table of ``triton-llm``. A verb's package is imported only when that verb runs.

A verb's module offers ``add_arguments(parser)`` and ``run(args) -> int``. Exit codes: 0 ok, 2 the caller's
mistake, 1 ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version

__all__ = ["VERBS", "Verb", "main"]


@dataclass(frozen=True)
class Verb:
    module: str
    summary: str


VERBS = {
    "build": Verb("build_engines.cli", "build an engine artifact from a checkpoint"),
    "plan": Verb("build_engines.plan.cli", "say what a model needs on a kind of GPU: memory, parallelism, ceilings"),
    "repo": Verb("build_engines.repo_cli", "add, remove, promote and roll back entries of the Triton model repository"),
    "serve": Verb("triton_launcher.cli", "start, supervise and drain a Triton server"),
    "gateway": Verb("openai_gateway.cli", "serve OpenAI's API and the chat page in front of one Triton or several"),
    "container": Verb("triton_launcher.container_cli", "what a container runs: build what is missing, then serve"),
    "drain": Verb("triton_launcher.leave_cli", "tell a server that it will be stopped, and wait until nobody is left"),
    "gateway-key": Verb("openai_gateway.protection.key_cli", "make an API key for the gateway; it is shown once"),
    "generate": Verb("triton_llm_client.generate_cli", "generate text from one prompt"),
    "chat": Verb("triton_llm_client.chat_cli", "talk with a served model"),
    "batch": Verb("triton_llm_client.batch_cli", "answer a file of requests, in order and resumably"),
    "score": Verb("triton_llm_client.score_cli", "score a file of texts: log-likelihoods and perplexity, resumably"),
    "doctor": Verb("triton_doctor.cli", "say what is wrong with this machine or set-up, why, and what to do next"),
    "trace": Verb("triton_doctor.trace_cli", "print the life of a request: queue, prefill, steps, preemptions, send"),
    "decide": Verb("triton_llm_client.bench.decision.cli", "rank ways to serve a model: measured and judged criteria"),
    "bench": Verb("triton_llm_client.bench.cli", "measure the engine, its peer and the server side by side"),
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--version"]:
        print(version("triton-llm"))
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else 2
    verb = VERBS.get(arguments[0])
    if verb is None:
        print(f"triton-llm: unknown verb '{arguments[0]}'; known verbs: {', '.join(VERBS)}.", file=sys.stderr)
        return 2
    return _run(arguments[0], verb, arguments[1:])


def _run(name: str, verb: Verb, arguments: Sequence[str]) -> int:
    module = import_module(verb.module)
    parser = argparse.ArgumentParser(prog=f"triton-llm {name}", description=verb.summary)
    module.add_arguments(parser)
    try:
        return int(module.run(parser.parse_args(arguments)))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # Errors that know their exit code are for the caller; anything else is a bug and keeps its traceback.
        exit_code = getattr(error, "exit_code", None)
        if exit_code is None:
            raise
        print(f"triton-llm {name}: error: {error}", file=sys.stderr)
        return int(exit_code)


def _overview() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {name:<{width}}  {verb.summary}" for name, verb in VERBS.items()]
    return "usage: triton-llm VERB [options]\n\nverbs:\n" + "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
