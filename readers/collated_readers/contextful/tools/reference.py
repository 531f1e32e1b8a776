"""`context.reference`: whether the row that a citation names is there."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from collated_readers.contextful.reads import Page
from collated_readers.contextful.responses import admits, blocks, internals, respond
from collated_readers.contextful.schemas import quoted

from .arguments import Bounded, bounds_of, check_tables
from .call import Call, interrupting

__all__ = ["Reference", "reference"]


class Reference(Bounded, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row of a *table* by the run that landed it and its number within that run."""

    table: str
    run_id: str
    row_seq: Annotated[int, Meta(ge=0, le=2**63 - 1)]


def reference(call: Call, params: Reference) -> dict[str, Any]:
    """Return `available` and why: `available`, `missing`, or `unreadable` where the zone excludes the table.

    A row that a newer one of its key replaced is missing. A store whose rows were erased is not served at
    all, so that `erased` does not occur.

    Raises:
        RequestError: `EnforceUnknownRelation`, what stands against the table, `ReadDurationExceeded`,
            `ReadResponseTooLarge`, `invalid_params`.
    """
    reads = call.reads(bounds_of(params))
    check_tables(reads, [params.table])
    ceilings = call.ceilings(params, [params.table])
    sql = f'SELECT 1 FROM {quoted(params.table)} WHERE "_run_id" = ? AND "_row_seq" = ?'  # noqa: S608
    reads.touch([params.table])
    with interrupting(reads, ceilings):
        is_there = bool(reads.query(sql, [params.run_id, params.row_seq], limit=1).rows)
    absent = "missing" if admits(reads.store.tables[params.table].declared.zone_allow) else "unreadable"
    verdict = Page(("available", "reason"), [[is_there, "available" if is_there else absent]])
    diagnosis = internals(sql, ceilings, call.elapsed_ms) if params.internals else None
    return respond(verdict, ceilings, blocks(reads, [params.table]), diagnosis)
