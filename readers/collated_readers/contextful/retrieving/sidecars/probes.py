"""Which sidecars of a table are asked, and how often, for candidates that its window does not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct

from collated_readers.contextful.model import IndexEntry, Snapshot, Table
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.retrieving.arms import EMBEDDING, Arm, Row
from collated_readers.contextful.retrieving.candidates import admitted, rejoined
from collated_readers.contextful.retrieving.filters import Where

from .cache import Sidecars
from .files import Unusable
from .terms import TOKENIZERS

__all__ = ["Probed", "Question", "probe_size", "probed"]

_FACTOR, _SMALLEST = 4, 64
_ROUNDS = 4
_MAKES: Mapping[str, Mapping[str, Any]] = {
    "fulltext": {"builder": "contextful-postings", "builder_version": 1},
    "vector": {"builder": "contextful-hnsw", "builder_version": 1, "metric": "cosine"},
}


class Question(Struct, frozen=True):
    """What is looked for: content tokens, a vector (None for none), and how many rows are wanted."""

    tokens: tuple[str, ...]
    vector: tuple[float, ...] | None
    limit: int


class Probed(Struct, frozen=True):
    """Rows that sidecars named; *is_short* where a probe gave too few rows and had named more of them."""

    rows: list[Row]
    is_short: bool = False


_Names = Callable[[Sequence[int]], list[str]]
"""Gives the identifiers of places in a sidecar."""

_Rows = Callable[[Sequence[str]], list[Row]]
"""Gives the rows of a relation that have these identifiers."""


def probe_size(limit: int) -> int:
    """Return how many identifiers a probe asks for at first, for *limit* rows."""
    return max(_FACTOR * limit, _SMALLEST)


def probed(reads: Reads, arm: Arm, where: Where, question: Question, sidecars: Sidecars) -> Probed:
    """Return what the sidecars of a table's snapshot name; nothing of one that cannot be used."""
    table, snapshot = reads.store.tables[arm.table], reads.files(arm.table).snapshot
    if snapshot is None:
        return Probed([])
    probe = _Probe(reads, arm, where, question)
    folder = f"{table.folder}/data/snapshots/{snapshot.snapshot_id}"
    rows: list[Row] = []
    is_short = False
    for entry in snapshot.indexes:
        if not _is_of(entry, table, snapshot) or not _answers(entry, arm, question):
            continue
        with suppress(Unusable):  # the exact scan stands by itself (`sidecar-falls-back`)
            found = probe.ask(sidecars, folder, entry)
            rows += found.rows
            is_short = is_short or found.is_short
    return Probed(rows, is_short)


def _is_of(entry: IndexEntry, table: Table, snapshot: Snapshot) -> bool:
    """Tell whether a sidecar is of this snapshot and of a known make, and one that *table* declares.

    What the declaration leaves open fits.
    """
    known = {"table": table.name, "snapshot_id": snapshot.snapshot_id, **_MAKES[entry.kind]}
    if any(entry.manifest.get(name) != value for name, value in known.items()):
        return False
    facts = {"kind": entry.kind, "column": entry.column}
    facts |= {"tokenizer": entry.tokenizer} if entry.kind == "fulltext" else {"model": entry.model}
    return any(
        all(declared.get(name, value) == value for name, value in facts.items())
        for declared in table.declared.indexes
    )


def _answers(entry: IndexEntry, arm: Arm, question: Question) -> bool:
    """Tell whether a sidecar can say anything to *question* about the columns that rows are ranked by."""
    if entry.id_column not in arm.types:
        return False
    if entry.kind == "fulltext":
        return bool(question.tokens) and entry.column in arm.scored and entry.tokenizer in TOKENIZERS
    return entry.column == EMBEDDING and len(question.vector or ()) == entry.dim


class _Probe(Struct, frozen=True):
    reads: Reads
    arm: Arm
    where: Where
    question: Question

    def ask(self, sidecars: Sidecars, folder: str, entry: IndexEntry) -> Probed:
        root = self.reads.store.root
        rows = partial(rejoined, self.reads, self.arm, self.where, entry.id_column)
        if entry.kind == "fulltext":
            postings = sidecars.postings(root, folder, entry)
            return self._in_rounds(postings.ranking(self.question.tokens).tolist(), postings.ids, rows)
        graph = sidecars.graph(root, folder, entry)
        nodes: list[int] = graph.ranking(self.question.vector or ()).tolist()
        if not self.where.sql:
            return self._in_rounds(nodes, graph.ids, rows)
        return Probed(rows(self._admitted(nodes, graph.ids, entry.id_column)))

    def _in_rounds(self, order: Sequence[int], names: _Names, rows: _Rows) -> Probed:
        """Return the rows of the first places of *order*: of twice as many, until there are enough."""
        limit = self.question.limit
        found: list[Row] = []
        taken, size = 0, probe_size(limit)
        for _ in range(_ROUNDS):
            found += rows(names(order[taken:size]))
            taken, size = size, 2 * size
            if len(found) >= limit or taken >= len(order):
                break
        return Probed(found, is_short=len(found) < min(limit, len(order)))

    def _admitted(self, order: Sequence[int], names: _Names, column: str) -> list[str]:
        """Return the first identifiers of *order* whose rows meet the filter: a probe's size of them.

        The relation is asked for twice as many at a time, so that few statements find rare ones.
        """
        wanted = probe_size(self.question.limit)
        kept: list[str] = []
        taken, size = 0, wanted
        while taken < len(order) and len(kept) < wanted:
            some = names(order[taken : taken + size])
            there = admitted(self.reads, self.arm, self.where, column, some)
            kept += [name for name in some if name in there]
            taken, size = taken + size, 2 * size
        return kept[:wanted]
