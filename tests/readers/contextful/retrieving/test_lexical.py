"""BM25 of candidates: the worked examples of retrieve.md §12, and the formula of §8 written out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.retrieving.lexical import bm25
from collated_readers.contextful.retrieving.matching import counter, counts_of
from collated_readers.contextful.retrieving.tokens import content_tokens, length_of


def _scores(query: str, texts: list[str]) -> list[float | None]:
    counters = [counter(token) for token in content_tokens(query)]
    lower = [text.lower() for text in texts]
    return bm25([counts_of(counters, text) for text in lower], [length_of(text) for text in lower])


@pytest.mark.rule("three-legs", "widened-window-statistics")
def test_the_first_worked_example_has_these_scores() -> None:
    texts = [
        "Solar battery storage costs fall — Cell prices fell again.",
        "Battery storage for regional grids — Grid operators buy storage.",
        "Solar battery storage at Globex — Globex buys cells.",
    ]
    assert _scores("solar battery storage", texts) == pytest.approx([0.725649, 0.313104, 0.761014], abs=5e-7)


def test_the_second_worked_example_has_these_scores() -> None:
    texts = ["Storage lowers grid costs. Storage pays.", "Batteries and storages in homes."]
    assert _scores("storage", texts) == pytest.approx([0.244442, 0.189364], abs=5e-7)


@pytest.mark.rule("lexical-leg-matches-only")
def test_what_holds_no_token_is_absent_and_not_zero() -> None:
    assert _scores("storage", ["storage", "nothing"])[1] is None
    assert _scores("storage", []) == []
    assert _scores("the", ["storage"]) == [None]
    assert bm25([[0], [0]], [0, 0]) == [None, None]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 5), min_size=3, max_size=3), st.integers(1, 50)), max_size=8)
)
def test_scores_are_those_of_the_formula(documents: list[tuple[list[int], int]]) -> None:
    counts = [row for row, _ in documents]
    lengths = [length for _, length in documents]
    for found, expected in zip(bm25(counts, lengths), _plain(counts, lengths), strict=True):
        assert (found is None) == (expected is None)
        assert found == pytest.approx(expected)


def _plain(counts: list[list[int]], lengths: list[int]) -> list[float | None]:
    number = len(counts)
    scores: list[float | None] = []
    for document, row in enumerate(counts):
        total, present = 0.0, False
        for token, tf in enumerate(row):
            df = sum(1 for other in counts if other[token] > 0)
            idf = math.log(1 + (number - df + 0.5) / (df + 0.5))
            average = sum(lengths) / number
            total += idf * (tf * 2.2) / (tf + 1.2 * (1 - 0.75 + 0.75 * lengths[document] / average))
            present = present or tf > 0
        scores.append(total if present else None)
    return scores
