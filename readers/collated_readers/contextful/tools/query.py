"""`context.query`: one SELECT of the caller's, over the store's relations and nothing else."""

from __future__ import annotations

from typing import Any

from collated_readers.contextful.guard import Judged, check_text, judge
from collated_readers.contextful.model import ContextStore
from collated_readers.contextful.refusals import refused

from .arguments import Bounded, bounds_of
from .call import Call, Statement

__all__ = ["Query", "check_asof", "query"]


class Query(Bounded, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The statement, and a `{"type": …, "value": …}` for each of its placeholders, by name."""

    sql: str
    parameters: dict[str, Any] | None = None


def query(call: Call, params: Query) -> dict[str, Any]:
    """Return what the statement answers.

    Raises:
        RequestError: what the guard refuses; what stands against a relation that is read;
            `StoreAvailableTimeUndeclared` for an ASOF JOIN; `engine_error`, `ReadDurationExceeded`,
            `ReadResponseTooLarge`; `invalid_params`.
    """
    check_text(params.sql)
    reads = call.reads(bounds_of(params))
    judged = judge(
        reads.tree(params.sql),
        text=params.sql,
        relations=reads.relations,
        closed=reads.closed,
        parameters=params.parameters,
    )
    check_asof(reads.store, judged)
    shown = params.parameters or {}
    return call.answer(
        reads, params, Statement(params.sql, judged.relations, judged.values, parameters=shown)
    )


def check_asof(store: ContextStore, judged: Judged) -> None:
    """Refuse an ASOF JOIN with a table that does not say when its rows were to be had (join-undeclared).

    Raises:
        RequestError: `StoreAvailableTimeUndeclared`, naming the first such table.
    """
    for name in judged.asof_rights:
        table = store.tables.get(name)
        if table is None or table.declared.available_time is None:
            raise refused(
                "StoreAvailableTimeUndeclared",
                f"{name!r:.200} stands right of an ASOF JOIN and declares no available_time",
            )
