"""`context.describe`: what a store holds, or what one of its tables is."""

from __future__ import annotations

from typing import Any

from collated_readers.contextful.model import Declared
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.responses import SESSION_ZONE, Ceilings, admits, blocks
from collated_readers.contextful.schemas import quoted

from .arguments import Bounded, Budgeted, bounds_of, check_relations
from .call import Call, interrupting, owner_of
from .kinds import fingerprint
from .templates import served, tool_of

__all__ = ["Describe", "describe"]

_CLOSED = ("local:device", "on-prem:*")
"""The zones of a table that declares none (layout §3)."""

_SIZE = "SELECT count(*), coalesce(sum(strlen(CAST(to_json(t) AS VARCHAR))), 0)::BIGINT FROM {} AS t"
_BYTES_PER_TOKEN = 4


class Describe(Bounded, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One *table*, or without one everything (bound-listing: that listing knows `as_of` alone)."""

    table: str | None = None


def describe(call: Call, params: Describe) -> dict[str, Any]:
    """Return the description of one relation, or the listing of all.

    Raises:
        RequestError: `EnforceUnknownRelation`, what stands against the relation, `ReadDurationExceeded`,
            `ReadResponseTooLarge`, `invalid_params`.
    """
    if params.table is None:
        return _listing(call, params)
    reads = call.reads(bounds_of(params))
    check_relations(reads, [params.table])
    return _description(call, params, reads, params.table)


# ------------------------------------------------------------------------- everything


def _listing(call: Call, params: Describe) -> dict[str, Any]:
    reads = call.reads(bounds_of(params, is_listing=True))
    listing = {
        "session_zone": SESSION_ZONE,
        "tables": [_entry(reads, name) for name in sorted(reads.relations)],
        "templates": [tool_of(template) for template in served(reads)],
        "lexicon": _lexicon(reads),
        **blocks(reads, ()),
    }
    ceilings = call.ceilings(params, ())
    return call.whole(params, listing, ceilings, "", len(listing["tables"]))


def _entry(reads: Reads, name: str) -> dict[str, Any]:
    """Return one relation of the listing; *fault* says why reading it is refused."""
    table = reads.store.tables.get(name)
    declared = _declared(reads, name)
    entry: dict[str, Any] = {
        "table": name,
        "kind": "data" if table else "ledger",
        "description": declared.description,
        "zone_admitted": admits(declared.zone_allow),
    }
    if table is not None and table.fault is not None:
        entry["fault"] = {"code": table.fault.code, "message": table.fault.message}
    return entry


def _lexicon(reads: Reads) -> dict[str, Any]:
    """Return the vocabulary of identifiers and badges, and of nothing else (lexicon-surface)."""
    store = reads.store
    both = {"numeric_identifiers": dict(store.numeric_identifiers), "badges": dict(store.badges)}
    return {name: words for name, words in both.items() if words}


# ------------------------------------------------------------------------- one relation


def _description(call: Call, params: Describe, reads: Reads, name: str) -> dict[str, Any]:
    declared = _declared(reads, name)
    ceilings = call.ceilings(params, [name])
    sql = _SIZE.format(quoted(name))
    with interrupting(reads, ceilings):
        columns = reads.columns(name)
        count, size = map(int, reads.query(sql, limit=1).rows[0])
    names = {column.name for column in columns}
    description: dict[str, Any] = {
        "table": name,
        "row_count": count,
        "bytes": size,
        "estimated_tokens": -(-size // _BYTES_PER_TOKEN),
        "schema_fingerprint": fingerprint(columns),
        "description": declared.description,
        "hint": declared.hint,
        "columns": [{"name": column.name, "type": column.type} for column in columns],
        "column_hints": {of: hint for of, hint in declared.column_hints.items() if of in names},
        "indexes": [dict(index) for index in declared.indexes],
        "partition_by": list(declared.partition_by),
        "zone": list(_CLOSED if declared.zone_allow is None else declared.zone_allow),
        "session_zone": SESSION_ZONE,
        "zone_admitted": admits(declared.zone_allow),
        "lexicon": _lexicon(reads),
        "example_queries": list(declared.example_queries),
        **_limits(call.ceilings(Budgeted(), [name])),
        **blocks(reads, [name]),
    }
    return call.whole(params, description, ceilings, sql, 1)


def _limits(ceilings: Ceilings) -> dict[str, Any]:
    """Return the block of the table's own limits, none where it has none (advertised-is-enforced).

    It is made of what reads are held to, so that it cannot say anything else.
    """
    bounds = {
        "max_rows": ceilings.rows,
        "max_duration_ms": ceilings.duration_ms,
        "max_response_bytes": ceilings.response_bytes,
    }
    limits = {name: bound.value for name, bound in bounds.items() if bound and bound.source == "table"}
    return {"limits": limits} if limits else {}


def _declared(reads: Reads, name: str) -> Declared:
    """Return what is declared of a relation; of a ledger nothing but its table's zones."""
    table = reads.store.tables.get(name)
    if table is not None:
        return table.declared
    owner = reads.store.tables.get(owner_of(name))
    return Declared(name, zone_allow=owner.declared.zone_allow if owner else None)
