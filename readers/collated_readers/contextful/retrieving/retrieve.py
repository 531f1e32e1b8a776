"""`corpus.retrieve`: the rows of a store's tables that best answer a question (retrieve.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from collated_readers.contextful.model import Limits
from collated_readers.contextful.reads import Page, Reads
from collated_readers.contextful.responses import Ceilings, ceilings_of, respond

from .arms import EMBEDDING, Row, names_of
from .candidates import Kept, window_of
from .dates import Timeframe, since_of
from .filters import filter_of
from .gathering import Asked, Gathered, Scored, floor_of, gather
from .lexical import bm25
from .order import Placed, placed
from .params import RetrieveParams, vector_of
from .tokens import content_tokens

if TYPE_CHECKING:
    from .sidecars import Sidecars

__all__ = ["COLUMNS", "DEFAULT_LIMIT", "Retrieved", "retrieve", "scores_of"]

DEFAULT_LIMIT = 10

_RESERVED = {
    "_run_id": "_run_id",
    "_ingested_at": "_ingested_at",
    "_authored_by": "_authored_by",
    "_modality": "_modality",
    "_lang": "_lang",
    "_provenance": "_provenance",
    "_prompt_hash": "_prompt_hash",
    "_kind": "kind",
}
COLUMNS = ("_table", "_row", "_snippet", "_score", "_vscore", "_in_window", "_date_basis", *_RESERVED)
"""The columns of the answer; those of the row that its table has not are null."""


class Retrieved(Struct, frozen=True):
    """The answer, and one row more where there is one, which says that the answer was cut.

    *tables* are those that were read, *sql* is what read their windows.
    """

    columns: tuple[str, ...]
    rows: list[list[Any]]
    in_window: tuple[bool, ...]
    tables: tuple[str, ...]
    ceilings: Ceilings
    counts: Mapping[str, Any]
    sql: str

    def block(self, delivered: int) -> dict[str, Any]:
        """Return the block `contextful.retrieval` of an answer of which so many rows are *delivered*."""
        return {**self.counts, "returned": delivered, "in_window": sum(self.in_window[:delivered])}

    def respond(self, extra: Mapping[str, Any], diagnosis: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the response with the blocks *extra* and its own, which counts what is delivered.

        Raises:
            RequestError: `ReadResponseTooLarge`.
        """
        name = "contextful.retrieval"
        most = self.block(min(len(self.rows), self.ceilings.rows.value))
        response = respond(Page(self.columns, self.rows), self.ceilings, {**extra, name: most}, diagnosis)
        return {**response, name: self.block(len(response["rows"]))}


def retrieve(
    reads: Reads,
    params: RetrieveParams,
    *,
    now_ns: int,
    kept: Kept | None = None,
    sidecars: Sidecars | None = None,
) -> Retrieved:
    """Return the rows that best answer *params*, read under the bounds of *reads* at *now_ns*.

    *kept* goes with *reads* and *sidecars* with the process, to spare the next question work.

    Raises:
        RequestError: `RetrieveTableUnavailable`, `FilterBudgetExceeded`, `invalid_params`, and what stands
            against reading one of the tables; `ReadDurationExceeded`.
    """
    conditions = filter_of(params.filter, params.kinds)
    vector, since = vector_of(params), since_of(params.since)
    names = names_of(reads, params.prefix, params.tables)
    reads.touch(names)
    ceilings = _ceilings(reads, names, params)
    limit = ceilings.rows.value
    tokens = content_tokens(params.query)
    asked = Asked(tokens, vector, conditions, limit, floor_of(tokens, params.min_score))
    with _interrupting(reads, ceilings):
        gathered = gather(reads, names, asked, Kept() if kept is None else kept, sidecars)
    scores = scores_of(gathered.rows)
    as_of = reads.bounds.as_of
    order = placed(gathered.rows, scores, Timeframe(since, now_ns if as_of is None else as_of.at))
    chosen = order[: ceilings.probe]
    return Retrieved(
        columns=COLUMNS,
        rows=[_delivered(one) for one in chosen],
        in_window=tuple(one.is_in_window for one in chosen),
        tables=tuple(names),
        ceilings=ceilings,
        counts=_counts(gathered, asked, scores, params.since),
        sql=";\n".join(gathered.statements),
    )


def scores_of(candidates: Sequence[Scored]) -> list[float | None]:
    """Return the BM25 of each candidate, None where none of the tokens stands in it."""
    return bm25([one.counts for one in candidates], [one.row.words() for one in candidates])


def _ceilings(reads: Reads, names: Sequence[str], params: RetrieveParams) -> Ceilings:
    request = Limits(
        max_rows=DEFAULT_LIMIT if params.limit is None else params.limit,
        max_duration_ms=params.max_duration_ms,
        max_response_bytes=params.max_response_bytes,
    )
    return ceilings_of([reads.store.tables[name].declared.limits for name in names], request)


def _interrupting(reads: Reads, ceilings: Ceilings) -> AbstractContextManager[None]:
    ceiling = ceilings.duration_ms
    return reads.interrupting(None) if ceiling is None else reads.interrupting(ceiling.value, ceiling.source)


def _counts(
    gathered: Gathered, asked: Asked, scores: Sequence[float | None], since: str | None
) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "window": window_of(asked.limit),
        "candidates_prefloor": gathered.before_floor,
        "candidates": len(gathered.rows),
        "matched": sum(1 for score in scores if score is not None),
        "returned": 0,
        "in_window": 0,
        "deduped": gathered.deduped,
        "padded": 0,
        "floor": asked.floor,
        "since": since,
    }
    return {**counts, "underfilled": True} if gathered.is_short else counts


def _delivered(one: Placed) -> list[Any]:
    row = one.one.row
    return [
        row.arm.table,
        _object(row),
        row.snippet,
        one.one.score,
        one.one.cosine,
        one.is_in_window,
        row.published()[1],
        *(row.cell(source) for source in _RESERVED.values()),
    ]


def _object(row: Row) -> dict[str, Any]:
    """Return a row's own cells, without what was injected and without its vector."""
    return {name: row.cell(name) for name in row.arm.selected if name[:1] != "_" and name != EMBEDDING}
