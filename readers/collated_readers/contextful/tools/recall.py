"""`memory.recall`: what a store claims of one subject, at an instant, as far as was known at another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from collated_readers.contextful.instants import echo, rfc3339
from collated_readers.contextful.model import Bound, Bounds
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.responses import admits
from collated_readers.contextful.schemas import quoted

from .arguments import Budgeted, bound_of, check_relations, invalid, pins_of
from .call import Call, Statement, interrupting

__all__ = ["Recall", "recall"]

_NEEDED = ("subject", "valid_from", "valid_to")
_MOST_EVIDENCE = 256
_TABLES = """json_extract_string("evidence", '$[*].table')"""
_EVIDENCE = (
    f"""coalesce(TRY(json_array_length("evidence") BETWEEN 1 AND {_MOST_EVIDENCE}"""
    f""" AND list_count({_TABLES}) = json_array_length("evidence")"""
    f""" AND list_has_all($served, {_TABLES})), false)"""
)
"""Whether all that a claim rests on, a list of `{"table": …}`, is in tables that are served.

A claim says what the rows that it was made of say: where those are withheld, so is it.
"""

_TIERS = ("curated", "derived", "researched")
"""The standing of a claim, best first."""


class Recall(Budgeted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The seed's arguments: *observed_at* asks for valid time, *as_of_ingest* for what had landed."""

    table: str
    subject: str
    observed_at: str | None = None
    as_of_ingest: str | None = None
    limit: Annotated[int, Meta(ge=0)] | None = None
    pin: dict[str, str | None] | None = None


def recall(call: Call, params: Recall) -> dict[str, Any]:
    """Return the claims whose subject is exactly `subject`, true at `observed_at`, which is now where absent.

    The best standing comes first, then what has been true for the shortest time, then by id. A claim that
    another one replaced still answers for the time in which it held. One that was made of rows of tables
    that are not served is not served either, but counted.

    Raises:
        RequestError: `EnforceUnknownRelation`, what stands against the table, `invalid_params` for a table
            without claims and for what is no instant; `ReadDurationExceeded`, `ReadResponseTooLarge`.
    """
    observed = None if params.observed_at is None else bound_of("observed_at", params.observed_at)
    ingested = None if params.as_of_ingest is None else bound_of("as_of_ingest", params.as_of_ingest)
    reads = call.reads(Bounds(as_of=ingested, pin=pins_of(params.pin)))
    check_relations(reads, [params.table])
    types = {column.name: column.type for column in reads.columns(params.table)}
    claims = _claims(reads, params, types, observed or Bound(call.now_ns))
    suppressed = _suppressed(call, reads, params, claims)
    sql = f"SELECT * FROM {claims.sql} ORDER BY {', '.join(_order(types))}"  # noqa: S608 - composed here
    statement = Statement(sql, [params.table], claims.values, max_rows=params.limit)
    return call.answer(reads, params, statement, {**suppressed, **_echo(observed, ingested)})


class _Claims(Struct, frozen=True):
    """The claims that answer: *rows* of a table, in SQL from its name on, of which *gate* lets some pass."""

    rows: str
    values: Mapping[str, Any]
    gate: str | None = None

    @property
    def sql(self) -> str:
        return self.rows if self.gate is None else f"{self.rows} AND {self.gate}"


def _claims(reads: Reads, params: Recall, types: Mapping[str, str], at: Bound) -> _Claims:
    """Return the claims of the subject that hold at an instant.

    Raises:
        RequestError: `invalid_params` for a table that holds none.
    """
    table = reads.store.tables.get(params.table)
    if missing := [name for name in _NEEDED if name not in types]:
        if table is not None and table.is_quiet:  # no claim has landed yet
            return _Claims(f"{quoted(params.table)} WHERE false", {})
        raise invalid(f"table '{params.table:.200}' holds no claims: it lacks {', '.join(missing)}")
    since, until = (_instant(name, types[name]) for name in ("valid_from", "valid_to"))
    instants = [f"CAST('{rfc3339(at.at)}' AS {kind})" for _, kind in (since, until)]
    before, after = ("<=", ">") if at.is_inclusive else ("<", ">=")
    rows = (
        f'{quoted(params.table)} WHERE "subject" = $subject AND {since[0]} {before} {instants[0]}'
        f' AND ("valid_to" IS NULL OR {until[0]} {after} {instants[1]})'
    )
    if "evidence" not in types:
        return _Claims(rows, {"subject": params.subject})
    return _Claims(rows, {"subject": params.subject, "served": _served(reads)}, _EVIDENCE)


def _served(reads: Reads) -> list[str]:
    """Return the tables whose rows may be read."""
    tables = reads.store.tables
    names = reads.relations & tables.keys()
    return sorted(name for name in names if admits(tables[name].declared.zone_allow))


def _suppressed(call: Call, reads: Reads, params: Recall, claims: _Claims) -> dict[str, Any]:
    """Return how many claims are not served, for what they rest on may not be read here either.

    Raises:
        RequestError: `ReadDurationExceeded`, and what stands against the table.
    """
    if claims.gate is None:
        return {}
    sql = f"SELECT count(*) FROM {claims.rows} AND NOT {claims.gate}"  # noqa: S608 - composed here
    with interrupting(reads, call.ceilings(params, [params.table])):
        count = int(reads.query(sql, claims.values, limit=1).rows[0][0])
    return {"contextful.recall": {"suppressed": {"MemoryEvidenceUnresolved": count}}}


def _order(types: Mapping[str, str]) -> list[str]:
    """Return the order of claims in SQL: by standing, those that began last first, then by id."""
    named = [name for name in ("claim_id", "_run_id", "_row_seq") if name in types]
    since = [f"{_instant('valid_from', types['valid_from'])[0]} DESC"] if "valid_from" in types else []
    return [*([_standing()] if "tier" in types else []), *since, *map(quoted, named)]


def _instant(column: str, spelled: str) -> tuple[str, str]:
    """Return a column as an instant, in SQL, and the type that it then has; what is none is null."""
    kind = "TIMESTAMPTZ_NS" if spelled.endswith("_NS") else "TIMESTAMPTZ"
    return f"TRY_CAST({quoted(column)} AS {kind})", kind


def _standing() -> str:
    """Return the standing of a claim as a number; of one that is not known, the worst."""
    cases = " ".join(f"WHEN '{tier}' THEN {at}" for at, tier in enumerate(_TIERS))
    return f'CASE "tier" {cases} ELSE {len(_TIERS)} END'


def _echo(observed: Bound | None, ingested: Bound | None) -> dict[str, Any]:
    """Return the bounds under the names they were given by, and of each whether it is inclusive."""
    given = {"observed_at": observed, "as_of_ingest": ingested}
    bounds = {name: bound for name, bound in given.items() if bound is not None}
    if not bounds:
        return {}
    block: dict[str, Any] = {name: echo(Bounds(as_of=bound))["as_of"] for name, bound in bounds.items()}
    block["inclusive"] = {name: bound.is_inclusive for name, bound in bounds.items()}
    return {"contextful.bounds": block}
