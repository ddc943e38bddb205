"""Errors survive every route as text, and come back as what they were."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

import triton_python_backend_utils as pb_utils
from python_llm import errors
from python_llm.errors import CallerMistake, DeadlineExceeded, ServeError, parse_error

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ServeError)]


def make(kind: type[ServeError], text: str = "max_tokens 9000: at most 8064 fit; ask for fewer.") -> ServeError:
    return kind("deadline_exceeded" if kind is DeadlineExceeded else "some_reason_2", text)


# What Triton's routes put around a backend's message.
SURROUNDINGS = [
    "{}",
    "[StatusCode.INVALID_ARGUMENT] {}",
    "[400] {}",
    "in ensemble 'smollm2', {}",
    "Failed to process the request(s) for model 'm_0_0', message: {}",
    "[StatusCode.INTERNAL] in ensemble 'smollm2', [request id: 7] {}",
    "[UNKNOWN_THING happened] {}",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("around", SURROUNDINGS)
def test_every_kind_comes_back_from_its_wire_text(kind: type[ServeError], around: str) -> None:
    sent = make(kind)
    got = parse_error(around.format(sent))
    assert got is not None
    expected = errors.EngineFailure if kind is ServeError else kind  # the root shares EngineFailure's code
    assert type(got) is expected
    assert (got.reason, got.text, str(got)) == (sent.reason, sent.text, str(sent))


@given(text=st.text(), reason=st.from_regex(r"[a-z0-9_]+", fullmatch=True), kind=st.sampled_from(KINDS))
def test_any_text_comes_back_whole(text: str, reason: str, kind: type[ServeError]) -> None:
    sent = kind(reason, text)
    got = parse_error(str(sent))
    assert got is not None
    assert (got.code, got.reason, got.text) == (sent.code, reason, text)


@pytest.mark.parametrize(
    "text", ["", "inference failed", "[INVALID_ARG]", "[NO_SUCH_CODE reason] text", "[INVALID_ARG Reason] text"]
)
def test_foreign_text_is_no_error_of_ours(text: str) -> None:
    assert parse_error(text) is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_code_is_one_of_tritons(kind: type[ServeError]) -> None:
    code = getattr(pb_utils.TritonError, kind.code)
    assert isinstance(code, int)


@pytest.mark.parametrize("kind", KINDS)
def test_exit_codes_say_who_is_at_fault(kind: type[ServeError]) -> None:
    callers_mistake = kind.code in {"INVALID_ARG", "NOT_FOUND", "UNSUPPORTED"}
    assert kind.exit_code == (2 if callers_mistake else 1)
    assert CallerMistake.exit_code == 2


def test_the_tree_is_drawn_in_the_docstring() -> None:
    for kind in KINDS:
        assert kind.__name__ in (errors.__doc__ or "")
        assert kind.__name__ == "ServeError" or str(kind.http_status) in (errors.__doc__ or "")


def test_a_reason_does_not_change_the_code() -> None:
    got = parse_error("[INTERNAL deadline_exceeded] engine: late.")
    assert type(got) is errors.EngineFailure
