"""What a request asks of the engine, against what the engine can: the rest is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from python_llm.engine import Capabilities
from python_llm.errors import Unsupported

__all__ = ["refuse_what_the_engine_lacks"]

_Able = Callable[[Capabilities], bool]


def _sampling(name: str) -> _Able:
    return lambda capabilities: name in capabilities.sampling


def _log_probs(capabilities: Capabilities) -> bool:
    return capabilities.log_probs


# input -> (the value that asks for nothing, whether the engine can). None: any value asks for something.
_NEEDS: Mapping[str, tuple[Any, _Able]] = {
    **{name: (None, _sampling(name)) for name in ("temperature", "top_k", "top_p", "min_p", "seed")},
    "repetition_penalty": (1.0, _sampling("repetition_penalty")),
    "presence_penalty": (0.0, _sampling("presence_penalty")),
    "frequency_penalty": (0.0, _sampling("frequency_penalty")),
    "no_repeat_ngram_size": (0, _sampling("no_repeat_ngram_size")),
    "logit_bias": ("", _sampling("logit_bias")),
    "bad_words": ([], _sampling("bad_words")),
    "resume_ids": ([], lambda can: can.resume),
    "priority": (0, lambda can: can.priorities),
    "beam_width": (1, lambda can: can.max_beam_width > 1),
    "return_log_probs": (False, _log_probs),
    "return_prompt_log_probs": (False, _log_probs),
    "return_logprobs": (False, _log_probs),
    "return_cumulative_logprob": (False, _log_probs),
    "top_log_probs": (0, _log_probs),
    "cache_salt": ("", lambda can: can.cache_salt),
}
_EMPTY_BIAS = frozenset({"{}", "null", "[]"})


def refuse_what_the_engine_lacks(values: Mapping[str, Any], capabilities: Capabilities) -> None:
    lacking = [name for name, value in values.items() if _asks(name, value) and not _NEEDS[name][1](capabilities)]
    if lacking:
        raise Unsupported("not_supported", f"{', '.join(lacking)}: this engine has no such ability; leave it out.")


def _asks(name: str, value: Any) -> bool:
    if name not in _NEEDS:
        return False
    if name == "bad_words":
        return any(value)
    if name == "logit_bias":
        return bool(value.strip()) and value.strip() not in _EMPTY_BIAS
    neutral = _NEEDS[name][0]
    return neutral is None or bool(value != neutral)
