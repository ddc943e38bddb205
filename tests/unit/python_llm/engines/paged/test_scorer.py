from __future__ import annotations

import numpy as np
import pytest

from fake_runner import FakeRunner, fake_logits
from python_llm.engines.paged.scorer import PagedScorer
from python_llm.errors import InvalidRequest


@pytest.mark.parametrize(("length", "sizes"), [(1, [1]), (6, [6]), (7, [6, 1]), (14, [6, 6, 2])])
def test_each_token_has_the_logits_of_what_stands_before_it(length: int, sizes: list[int]) -> None:
    scorer = PagedScorer(FakeRunner(block_count=4), chunk=6)
    ids = list(range(3, 3 + length))
    chunks = list(scorer.logits(ids))
    assert [len(rows) for rows in chunks] == sizes
    expected = [fake_logits(ids[: end + 1], 32) for end in range(length)]
    np.testing.assert_array_equal(np.concatenate(chunks), expected)


def test_a_second_text_does_not_see_the_first() -> None:
    scorer = PagedScorer(FakeRunner(block_count=4), chunk=6)
    list(scorer.logits([9, 9, 9, 9, 9, 9, 9]))
    (rows,) = scorer.logits([5, 6])
    np.testing.assert_array_equal(rows[1], fake_logits([5, 6], 32))


def test_a_text_that_the_cache_cannot_hold_is_refused() -> None:
    scorer = PagedScorer(FakeRunner(block_count=4), chunk=6)
    with pytest.raises(InvalidRequest, match=r"17 tokens: the cache holds 16 tokens; shorten it"):
        next(scorer.logits(list(range(17))))
