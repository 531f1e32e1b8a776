"""The arguments that read tools share: bounds, pins, the ceilings of one call. None is ever ignored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from collated_readers.codes import RequestError
from collated_readers.contextful.instants import parse_bound
from collated_readers.contextful.listing import pin_refused
from collated_readers.contextful.model import Bound, Bounds
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.refusals import refused

__all__ = [
    "Bounded",
    "Budgeted",
    "Count",
    "Internal",
    "bound_of",
    "bounds_of",
    "check_pins",
    "check_relations",
    "check_tables",
    "invalid",
    "pins_of",
]

Count = Annotated[int, Meta(ge=0)]


class Internal(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every tool takes; `internals` adds how the answer was made."""

    internals: bool = False


class Budgeted(Internal, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ceilings of one call, none by default (budget-arguments)."""

    max_duration_ms: Count | None = None
    max_response_bytes: Count | None = None


class Bounded(Budgeted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The bounds of one read and the builds it pins (bound-arguments, available-bound-argument)."""

    as_of: str | None = None
    valid_as_of: str | None = None
    available_as_of: str | None = None
    pin: dict[str, str | None] | None = None


def bounds_of(params: Bounded, *, is_listing: bool = False) -> Bounds:
    """Return the bounds that *params* ask for; a listing has none but `as_of` (bound-listing).

    Raises:
        RequestError: `invalid_params` for what is no instant, in a listing too.
    """
    bounds = Bounds(
        as_of=_bound("as_of", params.as_of),
        valid_as_of=_bound("valid_as_of", params.valid_as_of),
        available_as_of=_bound("available_as_of", params.available_as_of),
        pin=pins_of(params.pin),
    )
    return Bounds(as_of=bounds.as_of, pin=bounds.pin) if is_listing else bounds


def _bound(name: str, text: str | None) -> Bound | None:
    return None if text is None else bound_of(name, text)


def bound_of(name: str, text: str) -> Bound:
    """Return the bound of the argument *name*.

    Raises:
        RequestError: `invalid_params`.
    """
    try:
        return parse_bound(text)
    except ValueError as error:
        raise invalid(f"{name}: {error}") from error


def pins_of(pin: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return the builds that are pinned; null is as good as nothing (null-pin)."""
    return {table: build for table, build in (pin or {}).items() if build is not None}


def check_pins(reads: Reads) -> None:
    """Return where each table that is pinned has the build: no argument is ignored.

    Raises:
        RequestError: `PinnedBuildUnavailable`, the same for what is not there, not served and no model.
    """
    for table, build in sorted(reads.bounds.pin.items()):
        if table not in reads.relations or table not in reads.store.tables:
            raise pin_refused(table, build)
        reads.files(table)


def check_relations(reads: Reads, names: Iterable[str]) -> None:
    """Return where all *names* are relations.

    Raises:
        RequestError: `EnforceUnknownRelation`, the same for what is not there and what is not served.
    """
    for name in names:
        if name not in reads.relations:
            raise refused("EnforceUnknownRelation", f"no relation {name!r:.200}")


def check_tables(reads: Reads, names: Iterable[str]) -> None:
    """Return where all *names* are tables, which ledgers are not: they have no runs and rows of their own.

    Raises:
        RequestError: `EnforceUnknownRelation`.
    """
    for name in names:
        check_relations(reads, [name])
        if name not in reads.store.tables:
            raise refused("EnforceUnknownRelation", f"{name!r:.200} is a request ledger and no table")


def invalid(message: str) -> RequestError:
    """Return what a request gets whose arguments are wrong."""
    return RequestError("invalid_params", message)
