"""Values of placeholders: given by name, checked against their type and never coerced (guard.md §4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard

from collated_readers.codes import RequestError
from collated_readers.contextful.instants import parse_instant
from collated_readers.contextful.refusals import refused

from .walk import Placeholder

__all__ = ["RESERVED", "TYPES", "arguments_to_bind", "check_template_placeholders", "values_to_bind"]

RESERVED = frozenset({"as_of", "available_as_of", "pin", "valid_as_of", "zone"})
"""Names that no parameter of a template may have: they are those of a read's own arguments."""

_WIDEST = 2**127  # of an integer that the engine binds exactly
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def values_to_bind(
    placeholders: Sequence[Placeholder], parameters: Mapping[str, Any] | None, text: str
) -> dict[str, Any]:
    """Return the value of each placeholder by name: an int, float, str, bool, or a datetime in UTC.

    Raises:
        RequestError: `QueryParameterRejected`: a `?`, a parameter that is missing, not used, without a type,
            or of another one; names that differ in case alone.
    """
    given = parameters or {}
    _check_dollars(placeholders, text)
    names = {placeholder.name for placeholder in placeholders}
    if problem := _difference(names, given.keys()):
        raise refused("QueryParameterRejected", problem)
    return {name: _typed(name, given[name]) for name in sorted(names)}


def check_template_placeholders(
    declared: Sequence[tuple[str, str]], placeholders: Sequence[Placeholder]
) -> None:
    """Refuse a template whose placeholders are neither its parameters in order nor exactly their names.

    Raises:
        RequestError: `TemplateArgumentRejected`.
    """
    names = {placeholder.name for placeholder in placeholders}
    if names not in (_numbers(declared), {name for name, _ in declared}):
        raise refused("TemplateArgumentRejected", "the template's placeholders are not its parameters")


def arguments_to_bind(
    declared: Sequence[tuple[str, str]], names: Sequence[str], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the value of each placeholder of a template, whose *names* were checked, by its name.

    Raises:
        RequestError: `TemplateArgumentRejected`: an argument is missing, unknown or of another type.
    """
    if problem := _difference({name for name, _ in declared}, arguments.keys()):
        raise refused("TemplateArgumentRejected", problem)
    values: dict[str, Any] = {}
    for number, (name, type_) in enumerate(declared, 1):
        try:
            values[name if name in names else str(number)] = TYPES[type_](arguments[name])
        except (TypeError, ValueError) as error:
            raise _mistyped("TemplateArgumentRejected", name, type_, error) from error
    return values


def _numbers(declared: Sequence[Any]) -> set[str]:
    return {str(number) for number in range(1, len(declared) + 1)}


def _check_dollars(placeholders: Sequence[Placeholder], text: str) -> None:
    """Refuse a `?`, which the tree numbers as it does `$1`: the text tells, where the engine saw it."""
    written = text.encode()
    if any(written[at : at + 1] != b"$" for _, at in placeholders):
        raise refused("QueryParameterRejected", "placeholders are written $name, or $1 and on; not ?")
    names = {name for name, _ in placeholders}
    if len({name.lower() for name in names}) < len(names):
        raise refused("QueryParameterRejected", "placeholders differ in case alone")
    numbers = {name for name in names if name.isdecimal()}
    if numbers and names != _numbers(list(names)):
        raise refused("QueryParameterRejected", "numbered placeholders are $1, $2 and on, without a gap")


def _difference(wanted: set[str], given: Any) -> str | None:
    """Return what is wrong with the names that are given."""
    if missing := sorted(wanted - given):
        return f"no value is given for {missing[0]!r:.80}"
    if unused := sorted(given - wanted):
        return f"nothing is named {unused[0]!r:.80}"
    return None


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _typed(name: str, given: Any) -> Any:
    """Return a parameter's value, of the type that it is given with."""
    if not _is_object(given) or set(given) != {"type", "value"}:
        raise refused("QueryParameterRejected", f"{name!r:.80} is not an object of exactly type and value")
    type_ = given["type"]
    if not isinstance(type_, str) or type_ not in TYPES:
        raise refused("QueryParameterRejected", f"{name!r:.80} has no type of {', '.join(TYPES)}")
    try:
        return TYPES[type_](given["value"])
    except (TypeError, ValueError) as error:
        raise _mistyped("QueryParameterRejected", name, type_, error) from error


def _mistyped(identifier: str, name: str, type_: str, error: Exception) -> RequestError:
    return refused(identifier, f"{name!r:.80} is no {type_}: {error}")


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("it is not a JSON integer")
    if not -_WIDEST <= value < _WIDEST:
        raise ValueError("it has more than 128 bits")
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("it is not a JSON number")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError("it is too large") from error
    if not math.isfinite(number):
        raise ValueError("it is not finite")
    return number


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is not a JSON string")
    value.encode()  # UnicodeEncodeError, for half a surrogate pair, is a ValueError
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("it is neither true nor false")
    return value


def _timestamp(value: Any) -> datetime:
    at = parse_instant(_string(value))
    if at % 1000:
        raise ValueError("it is finer than a microsecond")
    return _EPOCH + timedelta(microseconds=at // 1000)


TYPES: Mapping[str, Callable[[Any], Any]] = {
    "integer": _integer,
    "float": _float,
    "string": _string,
    "timestamp": _timestamp,
    "boolean": _boolean,
}
"""What a parameter may be declared as, and what takes a JSON value for it or raises Type- or ValueError."""
