"""The one projection of every read: ceilings and their sources, the envelope, and what cut it.

The section `respond` of the read face. Pure: cells are JSON already when they come here. A read asks for
`Ceilings.probe` rows, one more than it may deliver; the extra row says that something was cut, and whether
bytes would have cut there as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from collated_readers.codes import RequestError

from .instants import echo
from .listing import resolved_of
from .model import Limits, Table
from .reads import Page, Reads
from .refusals import refused

__all__ = [
    "FACE_ROWS",
    "SESSION_ZONE",
    "Ceiling",
    "Ceilings",
    "admits",
    "blocks",
    "ceilings_of",
    "internals",
    "respond",
    "within",
]

FACE_ROWS = 10_000
"""No read delivers more rows than these, whatever is declared (`face-ceiling`)."""

SESSION_ZONE = "local:device"
"""The zone of whoever asks through a socket of their own machine."""


_NONE = Limits()


class Ceiling(Struct, frozen=True):
    """A bound that applies, and who declared it: `table`, `request`, `template` or `face`."""

    value: int
    source: str


class Ceilings(Struct, frozen=True):
    """What one read is held to; an undeclared duration or size is None, rows are always bounded."""

    rows: Ceiling = Ceiling(FACE_ROWS, "face")
    duration_ms: Ceiling | None = None
    response_bytes: Ceiling | None = None

    @property
    def probe(self) -> int:
        """Return how many rows to ask for: those that may be delivered, and one to probe with."""
        return self.rows.value + 1


def ceilings_of(
    tables: Iterable[Limits], request: Limits = _NONE, template_rows: int | None = None
) -> Ceilings:
    """Return the least of what the touched *tables*, the *request* and a template declare.

    Equal ceilings are said to come from the first of table, request, template, face (`truncation-tie`).
    """
    declared = tuple(tables)
    rows = [
        *(Ceiling(limits.max_rows, "table") for limits in declared if limits.max_rows is not None),
        *([] if request.max_rows is None else [Ceiling(request.max_rows, "request")]),
        *([] if template_rows is None else [Ceiling(template_rows, "template")]),
        Ceiling(FACE_ROWS, "face"),
    ]
    return Ceilings(
        rows=_least(rows) or rows[-1],
        duration_ms=_least(_declared(declared, request, "max_duration_ms")),
        response_bytes=_least(_declared(declared, request, "max_response_bytes")),
    )


def _declared(tables: Sequence[Limits], request: Limits, field: str) -> list[Ceiling]:
    sources = [*((limits, "table") for limits in tables), (request, "request")]
    values = [(getattr(limits, field), source) for limits, source in sources]
    return [Ceiling(value, source) for value, source in values if value is not None]


def _least(ceilings: Sequence[Ceiling]) -> Ceiling | None:
    """Return the least, of equal ones the first."""
    return min(ceilings, key=lambda ceiling: ceiling.value, default=None)


def admits(allow: Sequence[str] | None, zone: str = SESSION_ZONE) -> bool:
    """Return whether zones *allow* (`local:device`, `on-prem:*`) hold *zone*; undeclared ones do."""
    return allow is None or any(
        zone == pattern or (pattern.endswith("*") and zone.startswith(pattern[:-1])) for pattern in allow
    )


def blocks(reads: Reads, touched: Iterable[str]) -> dict[str, Any]:
    """Return the blocks that a read of the *touched* relations carries, each only where it says something."""
    names = sorted(set(touched) & reads.store.tables.keys())
    tables = [reads.store.tables[name] for name in names]
    found: dict[str, Any] = {}
    if bounds := echo(reads.bounds):
        found["contextful.bounds"] = bounds
    if resolved := {name: build for name in names if (build := resolved_of(reads.files(name))) is not None}:
        found["contextful.resolved"] = resolved
    if restriction := _restriction(tables, is_incognito=reads.store.is_incognito):
        found["contextful.restriction"] = restriction
    return found


def _restriction(tables: Iterable[Table], *, is_incognito: bool) -> dict[str, Any] | None:
    """Return what was withheld of *tables* by zone; how many rows is not counted, for none is read."""
    excluded: list[dict[str, Any]] = [
        {"table": table.name, "excluded": True, "rows_dropped": None, "columns_masked": []}
        for table in tables
        if not admits(table.declared.zone_allow)
    ]
    if not excluded:
        return None
    return {"zone": SESSION_ZONE, "incognito": is_incognito, "relations": excluded}


def internals(sql: str, ceilings: Ceilings, elapsed_ms: float, **more: Any) -> dict[str, Any]:
    """Return the opt-in block; *more* are `parameters`, `cache`. `respond` adds the number of rows."""
    return {
        "sql": sql,
        "engine": "duckdb",
        "limit": ceilings.rows.value,
        "elapsed_ms": round(elapsed_ms, 3),
        **more,
    }


def respond(
    page: Page, ceilings: Ceilings, extra: Mapping[str, Any], diagnosis: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the response to a read that asked for `ceilings.probe` rows.

    *extra* are the blocks (`blocks`, and `contextful.retrieval`), *diagnosis* the `internals`.

    Raises:
        RequestError: `ReadResponseTooLarge` where not even the first row fits.
    """
    response = {"columns": list(page.columns), "rows": page.rows, "truncated": False, **extra}
    if diagnosis is not None:
        response["contextful.internals"] = {**diagnosis, "row_count": len(page.rows)}
    cut_by_rows = len(page.rows) > ceilings.rows.value
    kept = ceilings.rows.value if cut_by_rows else len(page.rows)
    whole = _cut(response, kept, _cause("rows", ceilings.rows) if cut_by_rows else None)
    limit = ceilings.response_bytes
    if limit is None or _fits(whole, page.rows[kept : kept + 1], limit.value):
        return whole
    return _within_bytes(response, kept, limit, may_be_empty=cut_by_rows and not kept)


def _cause(by: str, ceiling: Ceiling) -> dict[str, Any]:
    return {"by": by, "ceiling": ceiling.value, "source": ceiling.source}


def _cut(response: Mapping[str, Any], rows: int, cause: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the *response* with so many of its *rows*, saying what cut the others."""
    result: dict[str, Any] = {**response, "rows": response["rows"][:rows], "truncated": cause is not None}
    if cause is not None:
        result["contextful.truncation"] = dict(cause)
    if "contextful.internals" in result:
        result["contextful.internals"] = {**result["contextful.internals"], "row_count": rows}
    return result


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _fits(response: Mapping[str, Any], probe: Sequence[Any], limit: int) -> bool:
    """Return whether a response is within *limit* with the row that was cut: if not, bytes cut it too."""
    extra = sum(_size(row) + (1 if response["rows"] else 0) for row in probe)
    return _size(response) + extra <= limit


def _within_bytes(
    response: Mapping[str, Any], most: int, limit: Ceiling, *, may_be_empty: bool
) -> dict[str, Any]:
    """Return the *response* with as many whole rows, of *most*, as fit."""
    cause = _cause("bytes", limit)
    room = limit.value - _size(_cut(response, 0, cause))
    kept = 0
    for row in response["rows"][:most]:
        room -= _size(row) + (1 if kept else 0)
        if room < 0:
            break
        kept += 1
    # The number of rows among the internals is longer than the 0 that was measured.
    while kept and _size(_cut(response, kept, cause)) > limit.value:
        kept -= 1
    result = _cut(response, kept, cause)
    if _size(result) > limit.value or not (kept or may_be_empty):
        raise _too_large(limit)
    return result


def _too_large(limit: Ceiling) -> RequestError:
    """Return the refusal of a response that has no room for its first row."""
    return refused(
        "ReadResponseTooLarge",
        f"the response is over {limit.value} bytes, from {limit.source}, before its first row ends",
        "ask for fewer or shorter columns, or raise max_response_bytes",
    )


def within(response: dict[str, Any], ceilings: Ceilings) -> dict[str, Any]:
    """Return a *response* that has no rows to pop, such as a description, when it fits.

    Raises:
        RequestError: `ReadResponseTooLarge`.
    """
    limit = ceilings.response_bytes
    if limit is not None and _size(response) > limit.value:
        raise _too_large(limit)
    return response
