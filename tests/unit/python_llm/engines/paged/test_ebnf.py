"""EBNF made plain before it is converted; what it then accepts is test_guides' business."""

from __future__ import annotations

from python_llm.engines.paged.ebnf import is_ebnf, tidy


def test_ebnf_is_told_from_lark() -> None:
    assert is_ebnf('start ::= "a"')
    assert not is_ebnf('start: "::="')


def test_ebnf_rules_come_after_those_they_use_and_cycles_end() -> None:
    names = [line.split(" ", 1)[0] for line in tidy('root ::= a b\na ::= b | "(" root ")"\nb ::= "root"').splitlines()]
    assert names == ["b", "a", "root"]
    assert tidy('root ::= "#" [#] # gone\n  | "x"') == 'root ::= "#" [#]    | "x"\n'
