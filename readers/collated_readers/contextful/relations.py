"""The SELECT of a table's registered relation: what its files hold, under a read's bounds (layout §5).

Pure. Each step wraps the one before it; all columns of the result are the table's own, in the order in
which its files, and then its schema, bring them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from .instants import rfc3339
from .model import Bound, Bounds, Column, Table
from .refusals import refused
from .schemas import quiet_columns, quoted

__all__ = ["LEDGER", "LEDGER_SUFFIX", "landed", "ledger_of", "literal", "relation_of", "scan"]

LEDGER_SUFFIX = "__requests"
LEDGER: Mapping[str, str] = {
    "run_id": "VARCHAR",
    "batch_seq": "INTEGER",
    "request_id": "VARCHAR",
    "vendor_request_id": "VARCHAR",
    "connector": "VARCHAR",
    "method": "VARCHAR",
    "url_host": "VARCHAR",
    "status_code": "INTEGER",
    "started_at": "TIMESTAMPTZ",
    "duration_ms": "BIGINT",
}
"""The columns of a request ledger, with the types that they have where no file carries them."""

_TIEBREAKS = ("_ingested_at", "_run_id", "_row_seq")
_LAST_RESORT = ("_commit_seq",)  # the seed says no more; two nodes may have a run of one id at one instant
_DERIVED = frozenset(
    ("unit_ref", "derivation_key", "kind", "unit_status", "_ingested_at", "_run_id", "_row_seq")
)
_DERIVE_KEY = frozenset(("unit_ref", "derivation_key", "cue_seq", "task_version"))
_NANOSECOND_TYPES = frozenset(("TIMESTAMP_NS", "TIMESTAMPTZ_NS"))
_ZONED_TYPES = frozenset(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS"))
_TIME_TYPES = _NANOSECOND_TYPES | _ZONED_TYPES | {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"}
_LARGEST = 2**63 - 2  # nanoseconds; above it, and below its negative, the engine knows no such instant
_LONGEST_AGE_S = 5 * 10**9  # seconds, 158 years; an older threshold has no nanoseconds


class _Source(Struct, frozen=True):
    """A relation in the making: *types* are its columns' by name, spelled as the engine does."""

    table: Table
    sql: str
    types: Mapping[str, str]

    def has(self, column: str) -> bool:
        """Tell whether the relation has *column*; the engine does not look at the case of names."""
        return column.casefold() in {name.casefold() for name in self.types}

    def type_of(self, column: str) -> str:
        return next(spelled for name, spelled in self.types.items() if name.casefold() == column.casefold())

    def where(self, clause: str) -> _Source:
        """Return the rows of it that *clause*, a WHERE or QUALIFY, keeps."""
        return _Source(self.table, f"SELECT * FROM ({self.sql}) {clause}", self.types)  # noqa: S608 - composed here


def relation_of(table: Table, scanned: str | None, carried: Mapping[str, str], bounds: Bounds) -> str:
    """Return the relation of *table* over what was *scanned* of its files, None where it has none.

    *carried* are the columns of that scan, which some file has, with their types.

    Raises:
        RequestError: `StoreKeyUnknownColumn`, `StoreOrderByUnknownColumn`, `StoreValidTimeUndeclared`,
            `StoreValidTimeNotTimestamp`, `StoreAvailableTimeUndeclared`: what a read of this table meets.
    """
    if bounds.available_as_of is not None:
        raise refused("StoreAvailableTimeUndeclared", f"{table.name} declares no available time")
    if scanned is None:
        return _empty_under(table, bounds)
    source = _vectors(_Source(table, scanned, carried))
    if bounds.pin.get(table.name) is None:  # a build has the columns of its own parts
        source = _late(source)
    steps: tuple[Callable[[_Source], _Source], ...] = (_survivors, _current, _retained)
    for step in steps:
        source = step(source)
    return _valid(source, bounds.valid_as_of).sql


def scan(paths: Sequence[str], *, is_uniform: bool) -> str:
    """Return the SELECT of exactly these files: their columns by name, nothing read from their paths.

    Where they are *is_uniform*, of one schema, it is taken from the first, and not put together from all
    of them at each statement.
    """
    listed = ", ".join(literal(path) for path in paths)
    options = f"union_by_name = {str(not is_uniform).lower()}, hive_partitioning = false"
    return f"SELECT * FROM read_parquet([{listed}], {options})"  # noqa: S608 - quoted above


def landed(table: Table) -> tuple[Column, ...]:
    """Return the columns of a table without rows: its schema's, else the declared and injected ones."""
    return table.columns or quiet_columns(table.declared.columns)


def ledger_of(scanned: str | None, carried: Mapping[str, str]) -> str:
    """Return the relation of a request ledger over its files; a column that none carries is null."""
    if scanned is None:
        return _zero_rows([Column(name, spelled) for name, spelled in LEDGER.items()])
    cells = ", ".join(
        quoted(name) if name in carried else f"CAST(NULL AS {spelled}) AS {quoted(name)}"
        for name, spelled in LEDGER.items()
    )
    return f"SELECT {cells} FROM ({scanned})"  # noqa: S608 - composed here


def literal(text: str) -> str:
    """Return *text* as a string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _zero_rows(columns: Sequence[Column]) -> str:
    cells = ", ".join(f"CAST(NULL AS {column.type}) AS {quoted(column.name)}" for column in columns)
    return f"SELECT {cells} WHERE false"


def _empty_under(table: Table, bounds: Bounds) -> str:
    """Return the relation of a table that has no files: a key that it may lack means nothing here."""
    columns = landed(table)
    source = _Source(table, _zero_rows(columns), {column.name: column.type for column in columns})
    pair = table.declared.valid_time
    is_whole = pair is not None and all(map(source.has, filter(None, (pair.since, pair.until))))
    return source.sql if pair is not None and not is_whole else _valid(source, bounds.valid_as_of).sql


def _vectors(source: _Source) -> _Source:
    """Return the files' rows with vectors as the schema has them, rather than as lists."""
    wanted = {column.name: column.type for column in source.table.columns if _is_vector(column.type)}
    casts = {
        name: wanted[name] for name, spelled in source.types.items() if wanted.get(name, spelled) != spelled
    }
    if not casts:
        return source
    replaced = ", ".join(
        f"CAST({quoted(name)} AS {spelled}) AS {quoted(name)}" for name, spelled in casts.items()
    )
    sql = f"SELECT * REPLACE ({replaced}) FROM ({source.sql})"  # noqa: S608 - composed here
    return _Source(source.table, sql, {**source.types, **casts})


def _is_vector(spelled: str) -> bool:
    return spelled.startswith("FLOAT[") and spelled[6:-1].isdecimal()


def _late(source: _Source) -> _Source:
    """Add the columns of the schema that no file carries."""
    late = [column for column in source.table.columns if not source.has(column.name)]
    if not late:
        return source
    types = {**source.types, **{column.name: column.type for column in late}}
    return _Source(source.table, f"{source.sql} UNION ALL BY NAME {_zero_rows(late)}", types)


def _survivors(source: _Source) -> _Source:
    """Keep one row for each key: the latest by the declared order, then as the seed breaks ties."""
    declared = source.table.declared
    if not declared.primary_key:
        return source
    order_by = declared.order_by or "_ingested_at"
    since = () if declared.valid_time is None else (declared.valid_time.since,)
    key = (*declared.primary_key, *since)
    _require(source, key, "StoreKeyUnknownColumn", "a key")
    _require(source, (order_by,), "StoreOrderByUnknownColumn", "an order")
    breaks = (name for name in (*_TIEBREAKS, *_LAST_RESORT) if name != order_by and source.has(name))
    order = ", ".join(f"{quoted(name)} DESC NULLS LAST" for name in (order_by, *breaks))
    partition = ", ".join(map(quoted, key))
    return source.where(f"QUALIFY row_number() OVER (PARTITION BY {partition} ORDER BY {order}) = 1")


def _require(source: _Source, columns: Sequence[str], identifier: str, what: str) -> None:
    for column in columns:
        if not source.has(column):
            raise refused(
                identifier, f"{source.table.name} is declared {what} of {column!r}, which it does not have"
            )


def _current(source: _Source) -> _Source:
    """Drop what a unit's latest derivation superseded, of tables that hold derivations.

    A unit's derivation is the one under which its latest passage, or marker that it is done, landed.
    """
    declared = source.table.declared
    key = set(declared.primary_key)
    if not ({"unit_ref", "derivation_key"} <= key <= _DERIVE_KEY and all(map(source.has, _DERIVED))):
        return source
    unit = '"unit_ref"'
    if declared.retain_versions and source.has("task_version"):
        unit += ', "task_version"'
    landing = "row(" + ", ".join(map(quoted, _TIEBREAKS)) + ")"
    is_done = "\"kind\" = 'passage' OR \"unit_status\" IN ('ok', 'empty')"
    done = f"FILTER (WHERE {is_done}) OVER (PARTITION BY {unit})"
    latest = f'arg_max("derivation_key", {landing}) {done}'
    return source.where(
        f"QUALIFY {latest} IS NULL"
        f' OR "derivation_key" IS NOT DISTINCT FROM {latest} OR {landing} > max({landing}) {done}'
    )


def _retained(source: _Source) -> _Source:
    """Hide rows that are older than they may be, by the clock of each statement."""
    retention = source.table.declared.retain_rows
    if retention is None:
        return source
    column = retention.column
    if not source.has(column):
        raise refused("engine_error", f"{source.table.name} keeps rows by {column!r}, which it does not have")
    spelled = source.type_of(column)
    age_s = min(retention.age_ns // 10**9, _LONGEST_AGE_S)
    # What is no time is taken for one where it can be; a row that shows no age is not shown.
    value = quoted(column) if spelled in _TIME_TYPES else f"TRY_CAST({quoted(column)} AS TIMESTAMPTZ)"
    type_ = spelled if spelled in _TIME_TYPES else "TIMESTAMPTZ"
    return source.where(f"WHERE {value} >= CAST(now() - to_seconds({age_s}) AS {type_})")


def _valid(source: _Source, at: Bound | None) -> _Source:
    """Keep the rows that are true at the bound; a row is true from its first instant to before its last."""
    if at is None:
        return source
    pair = source.table.declared.valid_time
    if pair is None:
        raise refused("StoreValidTimeUndeclared", f"{source.table.name} declares no valid time")
    since = _bound(source, pair.since, at.at)
    clauses = [f"{quoted(pair.since)} {'<=' if at.is_inclusive else '<'} {since}"]
    if pair.until is not None:
        until, name = _bound(source, pair.until, at.at), quoted(pair.until)
        clauses.append(f"({name} IS NULL OR {name} {'>' if at.is_inclusive else '>='} {until})")
    return source.where(f"WHERE {' AND '.join(clauses)}")


def _bound(source: _Source, column: str, at: int) -> str:
    """Return *at* as the type of a column, which loses nothing: digits that it lacks decide nothing."""
    spelled = source.type_of(column) if source.has(column) else "nothing"
    if spelled not in _TIME_TYPES:
        raise refused(
            "StoreValidTimeNotTimestamp", f"{column!r} of {source.table.name} is {spelled}, no timestamp"
        )
    if spelled in _NANOSECOND_TYPES:
        at = min(max(at, -_LARGEST), _LARGEST)
    else:
        at -= at % 1_000
    type_ = spelled if spelled in _NANOSECOND_TYPES | _ZONED_TYPES else "TIMESTAMP"
    return f"CAST({literal(rfc3339(at))} AS {type_})"
