"""The automaton against a slow reference: at each character, the longest word that ends and the longest begun."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from python_llm.stop_words import StopWords

_alphabet = st.text(alphabet="abé", max_size=5)


def _longest_ending(words: list[str], text: str) -> str | None:
    return max((word for word in words if word and text.endswith(word)), key=len, default=None)


def _longest_begun(words: list[str], text: str) -> int:
    beginnings = {word[:length] for word in words for length in range(len(word) + 1)}
    return max((len(b) for b in beginnings if text.endswith(b)), default=0)


@given(words=st.lists(_alphabet, max_size=6), text=st.text(alphabet="abéx", max_size=30))
def test_the_automaton_agrees_with_the_reference(words: list[str], text: str) -> None:
    automaton, state = StopWords(words), 0
    for end, char in enumerate(text, start=1):
        state = automaton.step(state, char)
        assert automaton.matched[state] == _longest_ending(words, text[:end])
        assert automaton.depth[state] == _longest_begun(words, text[:end])


def test_empty_words_and_no_words_never_match() -> None:
    for automaton in (StopWords([]), StopWords([""])):
        state = automaton.step(0, "a")
        assert automaton.matched[state] is None
        assert automaton.depth[state] == 0


def test_many_long_words_with_one_beginning_take_linear_room() -> None:
    automaton = StopWords("a" * length for length in range(1, 2000))
    assert len(automaton.depth) == 2000
