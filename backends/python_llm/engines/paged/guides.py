"""A guide of a request as one Lark grammar, the language of llguidance.

JSON is written compactly: no white space between its parts, so that it cannot run away there. ``no_forcing`` allows
every token that fits the grammar, not just the one the tokenizer would choose for a forced text: the mask is exact
and costs the same however long the text is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from llguidance import StructTag, regex_to_lark
from llguidance.gbnf_to_lark import gbnf_to_lark

from python_llm.admission_json import read_json
from python_llm.engine import Guide
from python_llm.engines.paged.ebnf import is_ebnf, tidy

__all__ = ["lark_of"]

_OPTIONS_LINE = re.compile(r"(?m)^[ \t]*%llguidance\b(.*)$")
_KNOWN_OPTIONS = {"no_forcing", "no_initial_skip", "allow_initial_skip"}
_ANY_TEXT = r"(.|\n)*"


def lark_of(guide: Guide) -> str:
    """The guide's grammar; ValueError, or what the library's converters raise, says why there is none.

    The options come last, so that line numbers in the library's messages are those of the caller's Lark text.
    """
    return _with_options(_KINDS[guide.kind](guide.text))


def _json(_: str) -> str:
    return "start: " + _json_expression({"type": "object"})


def _json_schema(text: str) -> str:
    return "start: " + _json_expression(read_json(text))


def _json_expression(schema: Any) -> str:
    """``%json`` and the schema; of its own ``x-guidance`` all but the white space and leniency stays."""
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise ValueError("a JSON schema is an object")
    own = schema.get("x-guidance")
    options = {**(own if isinstance(own, dict) else {}), "whitespace_flexible": False, "lenient": False}
    options.pop("whitespace_pattern", None)
    return "%json " + json.dumps({**schema, "x-guidance": options})


def _regex(text: str) -> str:
    return "start: " + _regex_expression(text)


def _regex_expression(pattern: str) -> str:
    r"""Rust's syntax, matched against the whole text; \d, \w and \s are ASCII, as in JSON schemas."""
    return f"/{regex_to_lark(pattern, use_ascii='dws')}/" if pattern else '""'


def _ebnf(text: str) -> str:
    return gbnf_to_lark(tidy(text)) if is_ebnf(text) else text


def _structural_tag(text: str) -> str:
    record = read_json(text)
    if not isinstance(record, dict) or record.get("type") != "structural_tag":
        raise ValueError('a structural tag is an object of "type": "structural_tag"')
    if "format" in record:
        return _format(_object(record, "format"))
    tags = [
        (_text(each, "begin"), _json_expression_source(each.get("schema")), _text(each, "end"))
        for each in _objects(record, "structures")
    ]
    return _triggered(_texts(record, "triggers"), tags)


def _format(form: dict[str, Any]) -> str:
    if form.get("type") != "triggered_tags":
        return "start: " + _expression(form)
    for switch in ("at_least_one", "stop_after_first"):
        if form.get(switch):
            raise ValueError(f'"{switch}" of triggered_tags is not served; leave it out')
    tags = []
    for each in _objects(form, "tags"):
        content = _object(each, "content")
        if content.get("type") != "json_schema":
            raise ValueError('the content of a triggered tag is served as "json_schema" alone')
        tags.append((_text(each, "begin"), _json_expression_source(content.get("json_schema")), _text(each, "end")))
    return _triggered(_texts(form, "triggers"), tags)


def _triggered(triggers: list[str], tags: list[tuple[str, str, str]]) -> str:
    """Free text in which each trigger begins one of its tags."""
    found = []
    for begin, grammar, end in tags:
        trigger = next((each for each in triggers if each and begin.startswith(each)), None)
        if trigger is None:
            raise ValueError(f"begin '{begin}' starts with none of the triggers")
        found.append(StructTag(trigger=trigger, begin=begin, grammar=grammar, end=end))
    return StructTag.to_grammar(found, assume_special=False, text_regex=_ANY_TEXT)


def _expression(form: dict[str, Any]) -> str:
    """A format that is no free text, as one Lark expression."""
    kind = form.get("type")
    if kind == "json_schema":
        return _json_expression(form.get("json_schema"))
    if kind == "const_string":
        return json.dumps(_text(form, "value"))
    if kind == "regex":
        return _regex_expression(_text(form, "pattern"))
    if kind == "tag":
        begin, end = json.dumps(_text(form, "begin")), json.dumps(_text(form, "end"))
        return f"{begin} {_expression(_object(form, 'content'))} {end}"
    if kind in ("sequence", "or"):
        parts = [_expression(each) for each in _objects(form, "elements")]
        return f"({(' | ' if kind == 'or' else ' ').join(parts)})"
    raise ValueError(f"format '{kind}' is not served; json_schema, const_string, regex, tag, sequence, or are")


def _json_expression_source(schema: Any) -> str:
    return _json_expression(schema).removeprefix("%json ")


def _with_options(lark: str) -> str:
    options: dict[str, Any] = {}
    for line in _OPTIONS_LINE.findall(lark):
        options |= read_json(line)
    unknown = sorted(set(options) - _KNOWN_OPTIONS)
    if unknown:
        raise ValueError(f"%llguidance option '{unknown[0]}' is not served; {', '.join(sorted(_KNOWN_OPTIONS))} are")
    lark = _OPTIONS_LINE.sub("", lark)
    return f"{lark}\n%llguidance {json.dumps({**options, 'no_forcing': True})}\n"


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise ValueError(f'"{key}" must be a string')
    return value


def _texts(record: dict[str, Any], key: str) -> list[str]:
    values = record.get(key)
    if not isinstance(values, list) or not values or not all(isinstance(each, str) for each in values):
        raise ValueError(f'"{key}" must be a list of strings')
    return values


def _object(record: dict[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    if not isinstance(value, dict):
        raise ValueError(f'"{key}" must be an object')
    return value


def _objects(record: dict[str, Any], key: str) -> list[dict[str, Any]]:
    values = record.get(key)
    if not isinstance(values, list) or not values or not all(isinstance(each, dict) for each in values):
        raise ValueError(f'"{key}" must be a list of objects')
    return values


_KINDS: dict[str, Callable[[str], str]] = {
    "json": _json,
    "json_schema": _json_schema,
    "regex": _regex,
    "ebnf_grammar": _ebnf,
    "structural_tag": _structural_tag,
}
