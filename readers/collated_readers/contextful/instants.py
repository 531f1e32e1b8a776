"""Instants, bounds and ages as the format writes them: nanoseconds since 1970 in UTC (layout §2, §4.9)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from .model import Bound, Bounds

__all__ = ["admits", "echo", "nanoseconds", "parse_age", "parse_bound", "parse_instant", "rfc3339"]

_SECOND = 1_000_000_000  # nanoseconds
_DAY = 86_400 * _SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 9
_LONGEST = 64  # characters; anything longer is no instant, and is not looked at

_INSTANT = re.compile(
    r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_AGE = re.compile(r"(\d{1,6})([dhms])", re.ASCII)
_UNITS = {"d": _DAY, "h": 3_600 * _SECOND, "m": 60 * _SECOND, "s": _SECOND}


def parse_instant(text: str) -> int:
    """Return the instant that *text* writes, RFC 3339 with an offset and a literal `T`.

    Raises:
        ValueError: it is none, or one outside the years 1 to 9999.
    """
    match = _INSTANT.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text!r:.80} is no instant such as 2030-01-31T09:30:00Z")
    day, clock, fraction, offset = match.groups()
    try:
        at = datetime.fromisoformat(f"{day}T{clock}{offset}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r:.80} is no instant: {error}") from error
    return (at - _EPOCH) // timedelta(seconds=1) * _SECOND + int((fraction or "").ljust(_DIGITS, "0"))


def parse_bound(text: str) -> Bound:
    """Return the bound that *text* writes: an instant, itself included, or a day up to its end.

    Raises:
        ValueError: it is neither.
    """
    if _DATE.fullmatch(text) is None:
        return Bound(parse_instant(text))
    try:
        after = date.fromisoformat(text) + timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r:.80} is no day: {error}") from error
    return Bound((after - _EPOCH.date()).days * _DAY, is_inclusive=False)


def parse_age(text: str) -> int:
    """Return the nanoseconds of an age such as `30d`, `12h`, `5m` or `1s`.

    Raises:
        ValueError: it is none, or nothing.
    """
    match = _AGE.fullmatch(text)
    age = int(match[1]) * _UNITS[match[2]] if match else 0
    if not age:
        raise ValueError(f"{text!r:.80} is no age such as 30d")
    return age


def admits(bound: Bound | None, at: int) -> bool:
    """Tell whether *at* is within *bound*; everything is where there is none."""
    return bound is None or at < bound.at or (bound.is_inclusive and at == bound.at)


def rfc3339(at: int) -> str:
    """Return an instant as text, in UTC with `Z` and only the digits of a fraction that it needs."""
    whole, fraction = divmod(at, _SECOND)
    digits = f"{fraction:09}".rstrip("0")
    return f"{_seconds(whole)}.{digits}Z" if digits else f"{_seconds(whole)}Z"


def nanoseconds(at: int) -> str:
    """Return an instant as text, in UTC with `Z` and exactly nine digits of a fraction."""
    whole, fraction = divmod(at, _SECOND)
    return f"{_seconds(whole)}.{fraction:09}Z"


def echo(bounds: Bounds) -> dict[str, str | bool]:
    """Return the block `contextful.bounds`, empty for an unbounded read, which leaves it out.

    Instants have exactly nine digits; `inclusive` is true only when all bounds are.
    """
    given = {
        "as_of": bounds.as_of,
        "valid_as_of": bounds.valid_as_of,
        "available_as_of": bounds.available_as_of,
    }
    set_ = {name: bound for name, bound in given.items() if bound is not None}
    if not set_:
        return {}
    block: dict[str, str | bool] = {name: nanoseconds(bound.at) for name, bound in set_.items()}
    block["inclusive"] = all(bound.is_inclusive for bound in set_.values())
    return block


def _seconds(whole: int) -> str:
    return (_EPOCH + timedelta(seconds=whole)).replace(tzinfo=None).isoformat()
