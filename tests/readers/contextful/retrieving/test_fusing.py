"""Both legs as one number: retrieve.md §8, its examples C and D in §12."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.retrieving.fusing import fused, reciprocal

SCORES = st.lists(st.none() | st.floats(0.0, 10.0).map(lambda score: round(score, 1)), max_size=12)


@pytest.mark.rule("flat-window-full-credit")
def test_equal_scores_count_in_full() -> None:
    assert reciprocal([0.3, 0.3, None, 0.3]) == [1.0, 1.0, None, 1.0]


@pytest.mark.rule("fusion")
def test_equal_scores_share_a_rank_and_the_next_comes_after_both() -> None:
    assert reciprocal([3, 2, 2, 1]) == [61 / 61, 61 / 62, 61 / 62, 61 / 64]
    assert reciprocal([]) == []
    assert reciprocal([None]) == [None]


@pytest.mark.rule("fusion")
@pytest.mark.parametrize(
    ("cosine", "lexical", "total"),
    [
        (1.0, 1.0, 1.0),
        (0.6, 61 / 62, 0.753548),
        (-0.3, 61 / 62, 0.393548),
        (None, 1.0, 0.4),
        (None, 61 / 63, 0.387302),
        (0.5, None, 0.3),
        (1.0000001, None, 0.6),
        (None, None, 0.0),
    ],
)
def test_cosine_counts_sixty_percent_and_words_forty(
    cosine: float | None, lexical: float | None, total: float
) -> None:
    assert fused(cosine, lexical) == pytest.approx(total, abs=5e-7)


@given(SCORES)
def test_a_rank_is_one_more_than_how_many_are_greater(scores: list[float | None]) -> None:
    present = [score for score in scores if score is not None]
    expected = [
        None if score is None else 61 / (61 + sum(1 for other in present if other > score))
        for score in scores
    ]
    assert reciprocal(scores) == expected
