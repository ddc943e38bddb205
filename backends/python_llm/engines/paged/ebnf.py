"""EBNF as clients write it (xgrammar's and llama.cpp's ``root ::= ...``), made plain for llguidance's converter.

The converter takes one rule a line, knows few escapes, and names terminals in as many passes as rules stand in the
wrong order. So: comments go, a rule that spans lines is joined, escapes become what they stand for, and rules come
after those they use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["is_ebnf", "tidy"]

_HEAD = re.compile(r"(?m)^[ \t]*([A-Za-z_][\w-]*)[ \t]*::=")
_PART = re.compile(r'"(?:\\.|[^"\\\n])*"|\[(?:\\.|[^\]\\\n])*\]|#[^\n]*|[^"\[#]+|.', re.DOTALL)
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]')
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_ESCAPE = re.compile(
    r"\\(?:x(?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|u\{(?P<b>[0-9A-Fa-f]{1,6})\}|U(?P<U>[0-9A-Fa-f]{8})|(?P<c>.))"
)
_SET_OPERATORS = re.compile(r"[&~]")  # doubled they would mean something in a regex's class
_NAMED = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "0": 0, "e": 27}


def is_ebnf(text: str) -> bool:
    """Whether a line begins with ``name ::=``; Lark, the other form, says ``name:``."""
    return _HEAD.search(text) is not None


def tidy(text: str) -> str:
    """The same grammar, one rule a line; ValueError says what is wrong with it."""
    rules = dict(_rules("".join(map(_plain, _PART.findall(text)))))
    return "\n".join(f"{name} ::= {rules[name]}" for name in _used_first(rules)) + "\n"


def _rules(text: str) -> Iterator[tuple[str, str]]:
    heads = list(_HEAD.finditer(text))
    if text[: heads[0].start()].strip():
        raise ValueError(f"'{text[: heads[0].start()].strip()[:40]}' stands before the first rule")
    ends = [*(head.start() for head in heads[1:]), len(text)]
    seen = set[str]()
    for head, end in zip(heads, ends, strict=True):
        if head[1] in seen:
            raise ValueError(f"rule '{head[1]}' is defined twice")
        seen.add(head[1])
        yield head[1], " ".join(text[head.end() : end].split("\n")).strip()


def _plain(part: str) -> str:
    if part.startswith("#"):
        return ""
    if part.startswith("["):
        operators_gone = _SET_OPERATORS.sub(lambda match: _in_class(ord(match[0])), part)
        return _ESCAPE.sub(lambda match: _in_class(_code(match)), operators_gone)
    return _ESCAPE.sub(lambda match: _in_literal(_code(match)), part) if part.startswith('"') else part


def _code(escape: re.Match[str]) -> int:
    digits = escape["x"] or escape["u"] or escape["b"] or escape["U"]
    code = int(digits, 16) if digits else _NAMED.get(escape["c"], ord(escape["c"]))
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"'{escape[0]}' is no character")
    return code


def _in_literal(code: int) -> str:
    char = chr(code)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return "\\" + char if char in '"\\' else char


def _in_class(code: int) -> str:
    return chr(code) if code > 0x7F or chr(code).isalnum() else f"\\x{code:02x}"


def _used_first(rules: dict[str, str]) -> list[str]:
    """Names in the order of a depth-first walk: a rule comes after those it uses, but for cycles."""
    order: dict[str, None] = {}
    seen = set[str]()
    for root in rules:
        stack = [(root, False)]
        while stack:
            name, done = stack.pop()
            if done:
                order[name] = None
            elif name in rules and name not in seen:
                seen.add(name)
                stack.append((name, True))
                stack += [(used, False) for used in _NAME.findall(_QUOTED.sub(" ", rules[name]))]
    return list(order)
