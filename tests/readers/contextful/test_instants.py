"""Instants, bounds and ages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.instants import (
    admits,
    echo,
    nanoseconds,
    parse_age,
    parse_bound,
    parse_instant,
    rfc3339,
)
from collated_readers.contextful.model import Bound, Bounds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31))


@given(MOMENTS, st.integers(0, 999_999_999), st.integers(-23 * 60, 23 * 60))
def test_an_instant_is_read_to_the_nanosecond_whatever_its_offset(
    moment: datetime, fraction: int, minutes: int
) -> None:
    at = moment.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=minutes)))
    text = f"{at:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f".{fraction:09}" + at.isoformat()[-6:]
    expected = (at - EPOCH) // timedelta(seconds=1) * 10**9 + fraction
    assert parse_instant(text) == expected
    assert parse_instant(rfc3339(expected)) == parse_instant(nanoseconds(expected)) == expected


@pytest.mark.parametrize(
    ("at", "trimmed", "nine"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000000Z"),
        (-1, "1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999999Z"),
        (1_500_000_000, "1970-01-01T00:00:01.5Z", "1970-01-01T00:00:01.500000000Z"),
    ],
)
def test_an_instant_is_written_in_utc(at: int, trimmed: str, nine: str) -> None:
    assert (rfc3339(at), nanoseconds(at)) == (trimmed, nine)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-01-01 00:00:00Z",
        "2030-01-01t00:00:00Z",
        "2030-01-01T00:00:00z",
        "2030-13-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "2030-01-01T24:00:00Z",
        "2030-01-01T00:00:00.Z",
        "2030-01-01T00:00:00.0123456789Z",
        "2030-01-01T00:00:00+24:00",
        "2030-01-01T00:00:00+0000",
        "٢٠٣٠-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        " 2030-01-01T00:00:00Z",
        "2030-01-01T00:00:00Z\n",
        "9" * 100_000,
    ],
)
def test_what_is_not_quite_an_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no instant"):
        parse_instant(text)


def test_a_day_bounds_up_to_its_end_and_an_instant_includes_itself() -> None:
    day, moment = parse_bound("2030-01-31"), parse_bound("2030-02-01T00:00:00Z")
    assert day == Bound(moment.at, is_inclusive=False)
    assert [admits(day, moment.at + near) for near in (-1, 0, 1)] == [True, False, False]
    assert [admits(moment, moment.at + near) for near in (-1, 0, 1)] == [True, True, False]
    assert admits(None, moment.at)


@pytest.mark.parametrize("text", ["2030-02-30", "9999-12-31", "2030-1-1", "yesterday", "2030-01-01T"])
def test_what_is_neither_a_day_nor_an_instant_is_no_bound(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_bound(text)


def test_bounds_are_echoed_with_nine_digits_and_inclusive_only_when_all_are() -> None:
    day, moment = parse_bound("2030-01-10"), parse_bound("2030-01-10T03:00:00.5+01:00")
    assert echo(Bounds()) == echo(Bounds(pin={"t": "b"})) == {}
    assert echo(Bounds(as_of=moment)) == {"as_of": "2030-01-10T02:00:00.500000000Z", "inclusive": True}
    assert echo(Bounds(as_of=moment, valid_as_of=day, available_as_of=moment)) == {
        "as_of": "2030-01-10T02:00:00.500000000Z",
        "valid_as_of": "2030-01-11T00:00:00.000000000Z",
        "available_as_of": "2030-01-10T02:00:00.500000000Z",
        "inclusive": False,
    }


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("2h", 7200), ("5m", 300), ("1s", 1)])
def test_an_age_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds * 10**9


@pytest.mark.parametrize("text", ["", "0d", "-1d", "1.5d", "d", "1w", "1 d", "9999999d", "１d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no age"):
        parse_age(text)
