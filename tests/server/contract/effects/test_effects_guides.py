"""An answer that follows a guide parses, validates, and touches nobody else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from python_llm.errors import InvalidRequest
from triton_llm_client import Completion

Ask = Callable[..., Completion]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 1, "maximum": 99},
        "likes": {"type": "array", "items": {"enum": ["tea", "bread"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}
ASKED = [{"role": "user", "content": "Describe a person as JSON."}]
GREEDY_AND_HOT = [{}, {"temperature": 1.0, "seed": 3}, {"temperature": 1.0, "seed": 4}]


def guided(kind: str, guide: object = None) -> dict[str, object]:
    return {"guided_decoding_guide_type": kind, "guided_decoding_guide": guide, "max_tokens": 200}


@pytest.mark.parametrize("sampling", GREEDY_AND_HOT)
def test_a_schema_validates(ask: Ask, sampling: dict[str, float]) -> None:
    answer = ask(ASKED, **guided("json_schema", PERSON), **sampling)
    person = json.loads(answer.text)
    assert answer.finish_reason == "stop"
    assert set(person) == {"name", "age", "likes"}
    assert len(person["name"]) <= 12
    assert 1 <= person["age"] <= 99
    assert 1 <= len(person["likes"]) <= 2
    assert set(person["likes"]) <= {"tea", "bread"}


@pytest.mark.parametrize("sampling", GREEDY_AND_HOT[:2])
def test_json_parses(ask: Ask, sampling: dict[str, float]) -> None:
    answer = ask(ASKED, **guided("json"), **sampling)
    if answer.finish_reason == "stop":
        json.loads(answer.text)
    else:
        assert answer.text.lstrip().startswith(("{", "["))
    assert not re.search(r"\s{40}", answer.text)


@pytest.mark.parametrize("sampling", GREEDY_AND_HOT)
def test_an_expression_matches_as_a_whole(ask: Ask, sampling: dict[str, float]) -> None:
    answer = ask(ASKED, **guided("regex", "(yes|no), [0-9]{2,4}"), **sampling)
    assert re.fullmatch("(yes|no), [0-9]{2,4}", answer.text)
    assert answer.finish_reason == "stop"


def test_a_grammar_is_followed(ask: Ask) -> None:
    answer = ask(ASKED, **guided("ebnf_grammar", 'root ::= ("ab" | "ba") ("-" [0-9])*'), temperature=1.0, seed=2)
    assert re.fullmatch("(ab|ba)(-[0-9])*", answer.text)


def test_structural_tags_are_followed(ask: Ask) -> None:
    tag = {"begin": "<age>", "schema": {"type": "integer", "maximum": 99, "minimum": 0}, "end": "</age>"}
    guide = {"type": "structural_tag", "structures": [tag], "triggers": ["<age>"]}
    answer = ask("Repeat: <age>5</age> <age>6</age> <age>", **{**guided("structural_tag", guide), "max_tokens": 48})
    for inside in re.findall(r"<age>(.*?)</age>", answer.text):
        assert 0 <= int(inside) <= 99


def test_a_guide_that_does_not_compile_touches_its_own_request_alone(ask: Ask) -> None:
    with pytest.raises(InvalidRequest, match="guide_not_valid"):
        ask(ASKED, **guided("regex", "[a-"))
    assert ask(ASKED, max_tokens=4).text
