"""`context.query`: one SELECT of the caller's, over the store's relations and nothing else."""

from __future__ import annotations

from typing import Any

from collated_readers.contextful.guard import check_text, judge

from .arguments import Bounded, bounds_of
from .asof import check_asof
from .call import Call, Statement

__all__ = ["Query", "query"]


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
    tree = reads.tree(params.sql)
    judged = judge(
        tree,
        text=params.sql,
        relations=reads.relations,
        closed=reads.closed,
        parameters=params.parameters,
    )
    check_asof(reads.store, tree, judged)
    statement = Statement(
        params.sql,
        judged.relations,
        judged.values,
        is_volatile=judged.is_volatile,
        parameters=params.parameters or {},
    )
    return call.answer(reads, params, statement)
