"""Records: what does not fit is refused by name, and what fits comes back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_llm.errors import CallerMistake
from python_llm.records import RecordError, read_record


@dataclass(frozen=True)
class Inner:
    size: int
    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    many: tuple[int, ...] = ()
    table: Mapping[str, int] = field(default_factory=dict)
    boxes: Mapping[str, Inner] = field(default_factory=dict)
    anything: Mapping[str, Any] | None = None
    kind: Literal["u8", "f32"] = "u8"
    flag: bool = False
    maybe: int | None = None

    def __post_init__(self) -> None:
        if self.name == "forbidden":
            raise ValueError("name 'forbidden': choose another.")


GOOD: dict[str, Any] = {"name": "x", "inner": {"size": 3}}


def test_everything_is_read() -> None:
    outer = read_record(
        Outer,
        {
            **GOOD,
            "many": [1, 2],
            "table": {"a": 1},
            "boxes": {"b": {"size": 1, "share": 1}},
            "anything": {"deep": [1, {"x": None}]},
            "kind": "f32",
            "flag": True,
            "maybe": 4,
        },
        "file",
    )
    assert outer == Outer(
        "x", Inner(3), (1, 2), {"a": 1}, {"b": Inner(1, 1.0)}, {"deep": [1, {"x": None}]}, "f32", True, 4
    )
    assert isinstance(outer.boxes["b"].share, float)


def test_null_is_allowed_only_where_the_field_says_so() -> None:
    assert read_record(Outer, {**GOOD, "maybe": None, "anything": None}, "file").maybe is None
    with pytest.raises(RecordError, match="key 'name': None; it must be text"):
        read_record(Outer, {**GOOD, "name": None}, "file")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({**GOOD, "nane": 1}, ["file", "unknown key 'nane'", "did you mean 'name'"]),
        ({**GOOD, "zzzzzz": 1}, ["unknown key 'zzzzzz'", "known keys:", "inner", "many"]),
        ({"name": "x", "inner": {"size": 1, "shar": 2}}, ["file, key 'inner'", "'shar'", "did you mean 'share'"]),
        ({"name": "x"}, ["file", "missing inner", "add"]),
        ({}, ["missing name, inner"]),
        ({**GOOD, "name": 3}, ["file, key 'name'", "3", "it must be text"]),
        ({**GOOD, "inner": []}, ["file, key 'inner'", "list", "JSON object"]),
        ({"name": "x", "inner": {"size": 1.5}}, ["key 'size'", "1.5", "a whole number"]),
        ({"name": "x", "inner": {"size": True}}, ["key 'size'", "True", "a whole number"]),
        ({"name": "x", "inner": {"size": 1, "share": True}}, ["key 'share'", "True", "a number"]),
        ({"name": "x", "inner": {"size": 1, "share": "1"}}, ["key 'share'", "'1'", "a number"]),
        ({**GOOD, "many": 3}, ["key 'many'", "3", "a list"]),
        ({**GOOD, "many": [1, "2"]}, ["key 'many'", "'2'", "a whole number"]),
        ({**GOOD, "many": "12"}, ["key 'many'", "'12'", "a list"]),
        ({**GOOD, "table": [1]}, ["key 'table'", "an object"]),
        ({**GOOD, "table": {"a": "b"}}, ["key 'table'['a']", "'b'", "a whole number"]),
        ({**GOOD, "boxes": {"b": {}}}, ["key 'boxes'['b']", "missing size"]),
        ({**GOOD, "kind": "f16"}, ["key 'kind'", "'f16'", "one of u8, f32"]),
        ({**GOOD, "flag": 1}, ["key 'flag'", "1", "true or false"]),
        ({**GOOD, "name": "forbidden"}, ["file", "'forbidden'", "choose another"]),
        ([], ["file", "list", "JSON object"]),
        (None, ["file", "NoneType", "JSON object"]),
        ("text", ["file", "str", "JSON object"]),
    ],
)
def test_what_does_not_fit_is_refused_by_name(data: object, words: list[str]) -> None:
    with pytest.raises(RecordError) as caught:
        read_record(Outer, data, "file")
    for word in words:
        assert word in str(caught.value)
    assert isinstance(caught.value, CallerMistake)
    assert str(caught.value).endswith(".")


@given(
    st.builds(
        Outer,
        name=st.text().filter(lambda name: name != "forbidden"),
        inner=st.builds(Inner, st.integers(), st.floats(allow_nan=False)),
        many=st.lists(st.integers()).map(tuple),
        table=st.dictionaries(st.text(), st.integers()),
        boxes=st.dictionaries(st.text(), st.builds(Inner, st.integers(), st.floats(allow_nan=False))),
        anything=st.none() | st.dictionaries(st.text(), st.integers() | st.text()),
        kind=st.sampled_from(["u8", "f32"]),
        flag=st.booleans(),
        maybe=st.none() | st.integers(),
    )
)
def test_a_record_written_and_read_is_the_same(outer: Outer) -> None:
    assert read_record(Outer, asdict(outer), "file") == outer
