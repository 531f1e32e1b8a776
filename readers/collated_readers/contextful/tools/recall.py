"""`memory.recall`: what a store claims of one subject, at an instant, as far as was known at another."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from collated_readers.contextful.instants import echo, rfc3339
from collated_readers.contextful.model import Bound, Bounds
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.schemas import quoted

from .arguments import Budgeted, bound_of, check_relations, invalid, pins_of
from .call import Call, Statement

__all__ = ["Recall", "recall"]

_NEEDED = ("subject", "valid_from", "valid_to")
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
    another one replaced still answers for the time in which it held.

    Raises:
        RequestError: `EnforceUnknownRelation`, what stands against the table, `invalid_params` for a table
            without claims and for what is no instant; `ReadDurationExceeded`, `ReadResponseTooLarge`.
    """
    observed = None if params.observed_at is None else bound_of("observed_at", params.observed_at)
    ingested = None if params.as_of_ingest is None else bound_of("as_of_ingest", params.as_of_ingest)
    reads = call.reads_of(Bounds(as_of=ingested, pin=pins_of(params.pin)))
    check_relations(reads, [params.table])
    sql, values = _statement(reads, params, observed or Bound(call.now_ns))
    statement = Statement(sql, [params.table], values, max_rows=params.limit)
    return call.answer(reads, params, statement, _echo(observed, ingested))


def _statement(reads: Reads, params: Recall, at: Bound) -> tuple[str, list[Any]]:
    types = {column.name: column.type for column in reads.columns(params.table)}
    table = reads.store.tables.get(params.table)
    if missing := [name for name in _NEEDED if name not in types]:
        if table is not None and table.is_quiet:  # no claim has landed yet
            return f"SELECT * FROM {quoted(params.table)} WHERE false", []  # noqa: S608
        raise invalid(f"table '{params.table:.200}' holds no claims: it lacks {', '.join(missing)}")
    since, until = (_instant(name, types[name]) for name in ("valid_from", "valid_to"))
    instants = [f"CAST('{rfc3339(at.at)}' AS {kind})" for _, kind in (since, until)]
    before, after = ("<=", ">") if at.is_inclusive else ("<", ">=")
    where = (
        f'"subject" = ? AND {since[0]} {before} {instants[0]}'
        f' AND ("valid_to" IS NULL OR {until[0]} {after} {instants[1]})'
    )
    order = [
        *([_standing()] if "tier" in types else []),
        f"{since[0]} DESC",
        *(['"claim_id"'] if "claim_id" in types else []),
        '"_run_id"',
        '"_row_seq"',
    ]
    sql = f"SELECT * FROM {quoted(params.table)} WHERE {where} ORDER BY {', '.join(order)}"  # noqa: S608
    return sql, [params.subject]


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
