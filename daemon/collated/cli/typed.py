"""What is typed in a form of its own, as `type=` of the argument parser. Pure."""

import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["Condition", "Typed", "condition", "milliseconds", "parameter"]

_LONGEST_S = 1_000_000
_TRUTHS = {"true": True, "false": False}
# What the wire's encoding of numbers holds; the engine's widest integers do not fit.
_LEAST, _MOST = -(2**63), 2**64 - 1


class Typed(NamedTuple):
    """The value of a statement's placeholder."""

    name: str
    type: str
    value: str | int | float | bool


class Condition(NamedTuple):
    """A column, and a value of it as text."""

    column: str
    value: str


def parameter(typed: str) -> Typed:
    """Return what `NAME:TYPE=VALUE` says; the daemon knows whether a timestamp is one.

    Raises:
        ArgumentTypeError: it says nothing, or the value is none of that type.
    """
    head, equals, value = typed.partition("=")
    name, colon, kind = head.partition(":")
    if not (name and colon and equals):
        raise ArgumentTypeError(f"{typed!r:.200} is not NAME:TYPE=VALUE, such as n:integer=3")
    if kind not in _VALUES:
        raise ArgumentTypeError(f"{kind!r:.200} is no type; the types are {', '.join(_VALUES)}")
    try:
        return Typed(name, kind, _VALUES[kind](value))
    except (KeyError, ValueError) as error:
        raise ArgumentTypeError(f"{value!r:.200} is no {kind}") from error


def condition(typed: str) -> Condition:
    """Return what `COLUMN=VALUE` says.

    Raises:
        ArgumentTypeError: it says nothing.
    """
    column, equals, value = typed.partition("=")
    if not (column and equals):
        raise ArgumentTypeError(f"{typed!r:.200} is not COLUMN=VALUE, such as lang=en")
    return Condition(column, value)


def milliseconds(typed: str) -> int:
    """Return a number of seconds in milliseconds.

    Raises:
        ArgumentTypeError: it is none, or no time.
    """
    try:
        seconds = float(typed)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_S:
        raise ArgumentTypeError(f"{typed!r:.200} is no number of seconds above 0")
    return max(1, round(seconds * 1000))


def _integer(typed: str) -> int:
    value = int(typed)
    if not _LEAST <= value <= _MOST:
        raise ValueError(typed)
    return value


def _float(typed: str) -> float:
    value = float(typed)
    if not math.isfinite(value):
        raise ValueError(typed)
    return value


_VALUES: Mapping[str, Callable[[str], str | int | float | bool]] = {
    "integer": _integer,
    "float": _float,
    "string": str,
    "timestamp": str,
    "boolean": _TRUTHS.__getitem__,
}
