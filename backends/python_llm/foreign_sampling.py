"""vLLM's own names of sampling parameters, and what they say in ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from python_llm.errors import Unsupported
from python_llm.json_values import READERS, wrong_type

__all__ = ["FOREIGN_KEYS", "Values"]

Values = Mapping[str, Any]
_Reader = Callable[[str, Any], Values]

_whole = READERS["INT32", True]
_flag = READERS["BOOL", True]
_METACHARACTERS = frozenset(r"\.+*?()|[]{}^$")


def _refuse(key: str, value: Any, remedy: str) -> Unsupported:
    return Unsupported("not_supported", f"{key}: {repr(value)[:60]}; {remedy}.")


def _top_k(key: str, value: Any) -> Values:
    number = _whole(key, value)
    return {"top_k": 0 if number == -1 else number}  # vLLM: -1 is off


def _stop(key: str, value: Any) -> Values:
    return {"stop_words": READERS["BYTES", False](key, value)}


def _log_probs(key: str, value: Any) -> Values:
    return {"return_log_probs": True, **_alternatives(key, value)}


def _prompt_log_probs(key: str, value: Any) -> Values:
    return {"return_prompt_log_probs": True, **_alternatives(key, value)}


def _alternatives(key: str, value: Any) -> Values:
    number = _whole(key, value)
    return {"top_log_probs": number} if number else {}


def _bias(key: str, value: Any) -> Values:
    return {"logit_bias": value if isinstance(value, str) else json.dumps(value)}


def _early_stopping(key: str, value: Any) -> Values:
    return {"early_stopping": int(_flag(key, value))}


def _only(allowed: bool | int, remedy: str) -> _Reader:
    def read(key: str, value: Any) -> Values:
        given = _flag(key, value) if isinstance(allowed, bool) else _whole(key, value)
        if given != allowed:
            raise _refuse(key, value, remedy)
        return {}

    return read


def _never(remedy: str) -> _Reader:
    def read(key: str, value: Any) -> Values:
        raise _refuse(key, value, remedy)

    return read


def _guide(key: str, value: Any) -> Values:
    """vLLM's guided_decoding or structured_outputs: an object with one of the keys below."""
    parsed = _object(value)
    if parsed is None:
        raise wrong_type(key, value, f"an object with one of {', '.join(_GUIDES)}")
    given = {name: said for name, said in parsed.items() if _is_set(name, said)}
    if not given:
        return {}
    if len(given) > 1 and _GUIDES.keys() >= given.keys():
        raise wrong_type(key, value, f"an object with one of {', '.join(_GUIDES)}, not {' and '.join(given)} together")
    if not _GUIDES.keys() >= given.keys():
        raise wrong_type(key, value, f"an object with one of {', '.join(_GUIDES)}")
    ((name, said),) = given.items()
    kind, text = _GUIDES[name](f"{key}.{name}", said)
    return {"guided_decoding_guide_type": kind, **({"guided_decoding_guide": text} if text else {})}


def _is_set(name: str, said: Any) -> bool:
    """An empty object is a JSON schema: the one that any JSON fits."""
    return said not in (None, False, "", [], {}) or (name == "json" and said == {})


def _object(value: Any) -> Mapping[str, Any] | None:
    """An object, or the text of one, as a request parameter must be."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def _as_text(kind: str) -> Callable[[str, Any], tuple[str, str]]:
    return lambda _, said: (kind, said if isinstance(said, str) else json.dumps(said))


def _choice(key: str, said: Any) -> tuple[str, str]:
    words = READERS["BYTES", False](key, said)
    return "regex", "|".join("".join(f"\\{c}" if c in _METACHARACTERS else c for c in word) for word in words)


_GUIDES: Mapping[str, Callable[[str, Any], tuple[str, str]]] = {
    "json": _as_text("json_schema"),
    "json_object": lambda _, said: ("json", ""),
    "regex": _as_text("regex"),
    "choice": _choice,
    "grammar": _as_text("ebnf_grammar"),
    "structural_tag": _as_text("structural_tag"),
}

_DETOKENISED = "text is always sent, without special tokens; leave it out"

# key -> (what it says in ours, what docs tell).
FOREIGN_KEYS: Mapping[str, tuple[_Reader, str]] = {
    "n": (lambda key, value: {"num_return_sequences": _whole(key, value)}, "num_return_sequences."),
    "best_of": (_only(1, "nothing is chosen among several; send n"), "1 alone."),
    "top_k": (_top_k, "top_k; -1 is off."),
    "stop": (_stop, "stop_words: a text or a list."),
    "logprobs": (_log_probs, "return_log_probs, and top_log_probs where above 0."),
    "prompt_logprobs": (_prompt_log_probs, "return_prompt_log_probs, and top_log_probs where above 0."),
    "logit_bias": (_bias, "logit_bias: an object."),
    "early_stopping": (_early_stopping, "early_stopping: true or false."),
    "guided_decoding": (_guide, f"The guide: an object with one of {', '.join(_GUIDES)}; json {{}}: any JSON."),
    "structured_outputs": (_guide, "As guided_decoding."),
    "use_beam_search": (_only(False, "send beam_width"), "false alone."),
    "detokenize": (_only(True, _DETOKENISED), "true alone."),
    "skip_special_tokens": (_only(True, _DETOKENISED), "true alone."),
    "spaces_between_special_tokens": (_only(True, _DETOKENISED), "true alone."),
    "allowed_token_ids": (_never("send a guide or logit_bias"), "Refused."),
    "truncate_prompt_tokens": (_never("shorten the prompt"), "Refused."),
    "logits_processors": (_never("send a guide or logit_bias"), "Refused."),
}
