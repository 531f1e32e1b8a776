"""`context.subscribe`: which runs were committed, told by polling, in the order of their commits.

Runs are those on disk (durable-source), so that other processes' commits are told too. A page tells at
most 1000 and where to go on; nothing of what the runs hold, not even how much (no-content).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from collated_readers.contextful.instants import rfc3339
from collated_readers.contextful.model import Bounds, ContextStore, Run, Table
from collated_readers.contextful.refusals import refused

from .arguments import Internal, check_tables, invalid
from .call import Call

__all__ = ["PAGE", "Subscribe", "subscribe"]

PAGE = 1000
"""Notifications of one page (overrun)."""


class Subscribe(Internal, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """*after* maps tables to the `RUN/NODE` after which to begin; without, with the oldest run."""

    tables: Annotated[tuple[str, ...], Meta(min_length=1)]
    after: dict[str, str] = msgspec.field(default_factory=dict[str, str])


def subscribe(call: Call, params: Subscribe) -> dict[str, Any]:
    """Return the runs committed after `after`, and the positions to go on from.

    Raises:
        RequestError: `EnforceUnknownRelation` before any position is looked up;
            `SubscriptionPositionUnavailable`; `StoreManifestUnreadable`; `invalid_params`.
    """
    reads = call.reads(Bounds())
    wanted = list(dict.fromkeys(params.tables))
    check_tables(reads, (*wanted, *params.after))
    tables = _tables(call.store, wanted)
    if strays := sorted(params.after.keys() - tables.keys()):
        raise invalid(f"after names {strays[0]!r:.200}, which is not among the tables")
    due = _due(tables, params.after)
    told = list(islice(due, PAGE))
    after = _positions(params.after, told)
    messages = [_notification(table, run) for table, run in told]
    if next(due, None) is not None:
        messages.append({"kind": "overrun", "after": after})
    answer: dict[str, Any] = {"messages": messages, "after": after}
    return call.with_internals(answer, params, rows=len(told))


def _tables(store: ContextStore, names: Sequence[str]) -> dict[str, Table]:
    """Return the tables of *names*.

    Raises:
        RequestError: `StoreManifestUnreadable`: nobody knows which runs there are.
    """
    tables = {name: store.tables[name] for name in names}
    for table in tables.values():
        if table.fault is not None:
            raise table.fault.with_traceback(None)  # it is raised again and again
    return tables


def _due(tables: Mapping[str, Table], after: Mapping[str, str]) -> Iterator[tuple[str, Run]]:
    """Yield what is to be told: by instant over all tables, by commit within each."""
    each = [[(name, run) for run in _later(table, after.get(name))] for name, table in tables.items()]
    return heapq.merge(*each, key=lambda one: (one[1].committed_at, one[0]))


def _later(table: Table, position: str | None) -> list[Run]:
    """Return the runs of *table* behind *position*, in the order in which they were committed.

    Those that come after a run that may still be committed wait for it, or it would never be told.

    Raises:
        RequestError: `SubscriptionPositionUnavailable`, naming the oldest position there is.
    """
    runs = sorted(table.runs, key=_commit_order)
    keys = [run.key for run in runs]
    if position is not None and position not in keys:
        oldest = f"the oldest is {keys[0]}" if keys else "there is none"
        raise refused(
            "SubscriptionPositionUnavailable",
            f"{position!r:.300} names no committed run of {table.name!r}; {oldest}",
        )
    begin = 0 if position is None else keys.index(position) + 1
    held = min(table.waiting, default=math.inf)
    return [run for run in runs[begin:] if run.commit_seq is None or run.commit_seq < held]


def _commit_order(run: Run) -> tuple[int, int, str]:
    """Return where a run stands; those of before there were numbers come first."""
    return (-1 if run.commit_seq is None else run.commit_seq, run.committed_at, run.key)


def _positions(after: Mapping[str, str], told: Sequence[tuple[str, Run]]) -> dict[str, str]:
    """Return the last position of each table, which is the old one where nothing was told."""
    return {**after, **{table: run.key for table, run in told}}


def _notification(table: str, run: Run) -> dict[str, Any]:
    return {
        "kind": "commit",
        "table": table,
        "run_id": run.run_id,
        "node_id": run.node_id,
        "frontier": {"as_of": rfc3339(run.committed_at), "commit_seq": run.commit_seq},
    }
