"""Command-line options for what a request may say: one row an option."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from python_llm.errors import CallerMistake
from triton_llm_client.params import GenerateParams

__all__ = ["add_answer_arguments", "add_sampling_arguments", "params_of", "told_options"]


@dataclass(frozen=True, eq=False)
class _Option:
    """``--flag`` sets the field ``name`` of GenerateParams; ``read`` makes its value of what argparse found."""

    flag: str
    name: str
    help: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Any], Any] = lambda value: value

    def add(self, group: Any) -> None:
        group.add_argument(f"--{self.flag}", dest=_dest(self), help=self.help, **self.keywords)


def _dest(option: _Option) -> str:
    return f"param_{option.flag.replace('-', '_')}"


def _whole(flag: str, name: str, text: str, metavar: str = "N") -> _Option:
    return _Option(flag, name, text, {"type": int, "metavar": metavar})


def _real(flag: str, name: str, text: str, metavar: str = "X") -> _Option:
    return _Option(flag, name, text, {"type": float, "metavar": metavar})


def _flag(flag: str, name: str, text: str) -> _Option:
    return _Option(flag, name, text, {"action": "store_const", "const": True})


def _several(flag: str, name: str, text: str, metavar: str = "TEXT", **keywords: Any) -> _Option:
    return _Option(flag, name, f"{text}; repeatable", {"action": "append", "metavar": metavar, **keywords}, tuple)


def _biases(texts: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in texts:
        token_id, separator, number = text.partition("=")
        try:
            found[token_id] = float(number)
        except ValueError:
            separator = ""
        if not separator:
            raise CallerMistake(f"--logit-bias '{text}': it must be ID=NUMBER, as in 42=-100.")
    return found


def _microseconds(seconds: float) -> int:
    if not 0 <= seconds < 1e12:
        raise CallerMistake(f"--timeout {seconds:g}: it must be a number of seconds, from 0.")
    return round(seconds * 1e6)


_SAMPLING = (
    _whole("max-tokens", "max_tokens", "most tokens to generate"),
    _whole("min-tokens", "min_tokens", "end nowhere before this many tokens"),
    _real("temperature", "temperature", "0 is greedy", "T"),
    _real("top-p", "top_p", "sample among the likeliest tokens of this mass", "P"),
    _whole("top-k", "top_k", "sample among the K likeliest tokens", "K"),
    _real("min-p", "min_p", "drop tokens less likely than this share of the likeliest", "P"),
    _whole("seed", "seed", "seed of the sampling noise"),
    _real("repetition-penalty", "repetition_penalty", "divides the logits of tokens in prompt or answer; 1 is off"),
    _real("presence-penalty", "presence_penalty", "subtracted from the logits of tokens in the answer"),
    _real("frequency-penalty", "frequency_penalty", "the same for each time a token is in the answer"),
    _whole("no-repeat-ngram", "no_repeat_ngram_size", "no run of this many tokens appears twice"),
    _Option(
        "logit-bias",
        "logit_bias",
        "added to the logit of token ID; repeatable",
        {"action": "append", "metavar": "ID=X"},
        _biases,
    ),
    _several("bad-word", "bad_words", "never generate this text"),
    _several("stop", "stop_words", "end at this text"),
    _several("stop-id", "stop_token_ids", "end at this token", "ID", type=int),
    _flag("include-stop", "include_stop_str_in_output", "keep the text of --stop that ended the answer"),
    _flag("ignore-eos", "ignore_eos", "go on where the model would end"),
    _whole("priority", "priority", "lower runs earlier; default 0"),
    _Option("tenant", "tenant", "whose request this is; tenants share the engine", {"metavar": "NAME"}),
    _Option(
        "timeout",
        "timeout",
        "end after this many seconds",
        {"type": float, "metavar": "SECONDS"},
        _microseconds,
    ),
    _Option("cache-salt", "cache_salt", "share cached prompts only with requests of this text", {"metavar": "TEXT"}),
    _Option("lora", "lora_name", "answer with this LoRA adapter of the model", {"metavar": "NAME"}),
)

_ANSWER = (
    _whole("n", "num_return_sequences", "answers to make"),
    _whole("beams", "beam_width", "beams of a beam search"),
    _real("length-penalty", "length_penalty", "with --beams: the exponent of the length that divides a beam's score"),
    _flag("early-stopping", "early_stopping", "with --beams: end as soon as that many beams are finished"),
    _Option(
        "echo", "exclude_input_in_output", "begin the text with the prompt", {"action": "store_const", "const": False}
    ),
    _several("resume-id", "resume_ids", "a token produced already, behind which to go on", "ID", type=int),
)

# Told with --json alone.
_TOLD = (
    _Option(
        "logprobs",
        "top_log_probs",
        "log-probs of the tokens, with K alternatives each (default: 0)",
        {"type": int, "nargs": "?", "const": 0, "metavar": "K"},
    ),
    _flag("prompt-logprobs", "return_prompt_log_probs", "log-probs of the prompt's tokens"),
    _flag("stop-reason", "return_stop_reason", "what ended the answer"),
    _flag("metrics", "return_perf_metrics", "the server's own times and counts"),
)

# Flag -> guide type, what it takes, help.
_GUIDES: Mapping[str, tuple[str, str, str]] = {
    "json-object": ("json", "", "the answer is a JSON object"),
    "json-schema": ("json_schema", "FILE", "the answer is JSON of the schema in FILE"),
    "regex": ("regex", "EXPRESSION", "the answer matches the expression as a whole"),
    "grammar": ("ebnf_grammar", "FILE", "the answer follows the EBNF grammar in FILE"),
    "structural-tag": ("structural_tag", "FILE", "the answer follows the structural tags in FILE"),
}


def add_sampling_arguments(parser: argparse.ArgumentParser) -> None:
    """What a single answer's text depends on."""
    group = parser.add_argument_group("generation (absent: the server's defaults)")
    for option in _SAMPLING:
        option.add(group)
    guides = parser.add_argument_group("guide (one of these)").add_mutually_exclusive_group()
    for flag, (_, metavar, text) in _GUIDES.items():
        takes: dict[str, Any] = {"metavar": metavar} if metavar else {"action": "store_true"}
        guides.add_argument(f"--{flag}", dest=_guide_dest(flag), help=text, **takes)


def add_answer_arguments(parser: argparse.ArgumentParser) -> None:
    """Several answers, and what is told beside the text."""
    group = parser.add_argument_group("answers")
    for option in _ANSWER:
        option.add(group)
    told = parser.add_argument_group("told with --json")
    for option in _TOLD:
        option.add(told)


def params_of(args: argparse.Namespace) -> GenerateParams:
    """What the options say.

    Raises:
        CallerMistake: a value of another form, or a file that cannot be read.
    """
    given = {option: getattr(args, _dest(option), None) for option in (*_SAMPLING, *_ANSWER, *_TOLD)}
    named = {option.name: option.read(value) for option, value in given.items() if value is not None}
    if "top_log_probs" in named:
        named |= {"return_log_probs": True, "top_log_probs": named["top_log_probs"] or None}
    return GenerateParams(**named, **_guide(args))


def told_options(args: argparse.Namespace) -> list[str]:
    """The options given whose answers only ``--json`` prints."""
    return [f"--{option.flag}" for option in _TOLD if getattr(args, _dest(option), None) is not None]


def _guide(args: argparse.Namespace) -> dict[str, Any]:
    for flag, (kind, metavar, _) in _GUIDES.items():
        value = getattr(args, _guide_dest(flag), None)
        if value:
            text = _text_of_file(flag, value) if metavar == "FILE" else value if metavar else ""
            return {"guided_decoding_guide_type": kind, **({"guided_decoding_guide": text} if text else {})}
    return {}


def _guide_dest(flag: str) -> str:
    return f"guide_{flag.replace('-', '_')}"


def _text_of_file(flag: str, path: str) -> str:
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise CallerMistake(f"--{flag} '{path}': {why}; it must be a readable text file.") from error
    if not text.strip():
        raise CallerMistake(f"--{flag} '{path}': it is empty; it must hold the guide.")
    return text
