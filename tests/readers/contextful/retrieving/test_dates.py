"""When a row appeared, and timeframes (retrieve.md §10)."""

from __future__ import annotations

import pytest

from collated_readers.codes import RequestError
from collated_readers.contextful.instants import parse_instant
from collated_readers.contextful.retrieving.dates import Timeframe, instant_of, published, since_of

HOUR = 3_600 * 10**9


@pytest.mark.rule("ordering-casts-first", "engine-resolved-date")
@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2030-01-05", "2030-01-05T00:00:00Z"),
        ("  2030-01-05 ", "2030-01-05T00:00:00Z"),
        ("2030-01-05T01:00:00+01:00", "2030-01-05T00:00:00Z"),
        ("2030-01-05T00:00:00.000000001Z", "2030-01-05T00:00:00.000000001Z"),
    ],
)
def test_spellings_of_one_instant_are_equal(text: str, same: str) -> None:
    assert instant_of(text) == parse_instant(same)


@pytest.mark.parametrize(
    "text", ["", "sometime", "2030-1-5", "2030-02-30", "2030-01-05 00:00:00Z", "20300105", "2030-01-05T00:00"]
)
def test_anything_else_is_no_instant(text: str) -> None:
    assert instant_of(text) is None


@pytest.mark.rule("window-anchor-tolerance")
def test_the_basis_says_which_column_or_what_is_wrong_with_it() -> None:
    assert published("2030-01-05", "published_at") == (instant_of("2030-01-05"), "published_at")
    assert published(None, "published_at") == (None, "null")
    assert published("sometime", "published_at") == (None, "uncastable")
    assert published(20300105, "published_at") == (None, "uncastable")


@pytest.mark.rule("since", "window-anchor-tolerance", "question-window-is-a-tier")
def test_a_timeframe_begins_with_since_and_ends_a_day_after_the_question() -> None:
    anchor = parse_instant("2030-01-10T00:00:00Z")
    frame = Timeframe(since_of("2030-01-01"), anchor)
    since = parse_instant("2030-01-01T00:00:00Z")
    assert [frame.admits(at) for at in (since - 1, since, anchor + 24 * HOUR, anchor + 24 * HOUR + 1)] == [
        False,
        True,
        True,
        False,
    ]
    assert not frame.admits(None)


@pytest.mark.rule("since")
def test_without_since_all_times_are_in() -> None:
    frame = Timeframe(None, 0)
    assert frame.admits(10**30)
    assert frame.admits(None)


def test_a_since_that_is_no_instant_is_refused() -> None:
    assert since_of(None) is None
    with pytest.raises(RequestError) as caught:
        since_of("last week")
    assert caught.value.code == "invalid_params"
