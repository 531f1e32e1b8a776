"""The format's own interface to one store, for programs that have its path (the seed's, and O1–O9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from msgspec import Struct

from collated_readers.contract import Budget, RequestError, StoreError
from collated_readers.opening import StoreConnection, StoreMoved, ask, open_store, tables, take_signature
from collated_readers.opening.failure import from_os
from collated_readers.vectors import MEMORY_BYTES, Direction, Metric

from .ids import NativeId
from .layout import Layout, Warned, quoted
from .lossless import Source
from .manifest import read_manifest
from .passages import Passage, find, named, passage_of, passages, source_of
from .shapes import count_of, layout_of
from .snapshot import check_header, check_sidecars

__all__ = ["DenseHit", "Embedder", "Inspection", "PrebuiltVectorStoreAdapter"]

T = TypeVar("T")

_LONGEST_S = 86_400.0
_PAGE_ROWS = 256


class Inspection(Struct, frozen=True):
    """What a store says of itself, before its passages are looked at."""

    contract: str
    model: str
    dimensions: int
    embedding_format: str
    is_normalized: bool
    metric: Metric
    direction: Direction
    records: int
    tables: tuple[str, ...]
    warnings: tuple[Warned, ...]


class DenseHit(Struct, frozen=True):
    """A record near the vector asked for; `score` is the metric's own number."""

    id: NativeId
    text: str
    source: Mapping[str, Any]
    score: float
    metric: Metric
    direction: Direction


class Embedder(Protocol):
    """Gives the vector of a text, under the model that it declares."""

    @property
    def model(self) -> str:
        """Return the model's name, as stores record it."""
        ...

    def embed(self, text: str) -> Sequence[float]:
        """Return the vector of *text*."""
        ...


class PrebuiltVectorStoreAdapter:
    """One store, open for reading; nothing is ever written to it or beside it."""

    def __init__(
        self,
        path: Path | str,
        manifest: Path | str | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        is_strict: bool = False,
    ) -> None:
        """Open the store at *path*; *manifest* is the file that declares `book-agent-explicit-v1`.

        A strict adapter takes no overlapping chunks for valid. Use it on one thread at a time.

        Raises:
            StoreError: a code of `formats/book-agent.md` §5, or what the system said of the files.
        """
        self._memory_bytes = memory_bytes
        self._is_strict = is_strict
        self._db = _open(Path(path))
        try:
            data = None if manifest is None else _manifest(Path(manifest))
            self._layout: Layout = self._ask(lambda db: layout_of(db, tables(db), data))
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the store; may be called twice."""
        self._db.close()

    def inspect(self) -> Inspection:
        """Return what the store says of itself.

        Raises:
            StoreError: `empty_store`, `metadata_conflict`.
        """
        layout = self._layout
        return Inspection(
            contract=layout.contract,
            model=layout.model,
            dimensions=layout.dimensions,
            embedding_format=layout.encoding,
            is_normalized=layout.is_normalized,
            metric=layout.metric,
            direction=layout.direction,
            records=self._ask(lambda db: count_of(db, layout)),
            tables=tuple(sorted(name for name, kind in self._ask(tables).items() if kind == "table")),
            warnings=layout.warned,
        )

    def validate(self, source_text: str | None = None) -> tuple[Warned, ...]:
        """Return what is odd about a sound store; *source_text* is the text that it was cut from.

        Raises:
            StoreError: the first fault, naming the record.
        """
        from .validation import Rules, validate  # numpy

        source = None if source_text is None else Source.of(source_text)
        rules = Rules(Budget.lasting(_LONGEST_S), self._memory_bytes, self._is_strict, source)
        return self._ask(lambda db: validate(db, self._layout, rules))

    def get_record(self, record_id: NativeId) -> Passage:
        """Return a record by its id, which has a storage class: 1 is not '1'.

        Raises:
            RequestError: `record_not_found`.
            StoreError: what is wrong with the record, `memory_budget_exceeded`.
        """
        return self._bounded(passage_of(self._layout, self._row(record_id)))

    def get_source_metadata(self, record_id: NativeId) -> dict[str, Any]:
        """Return where a record is from, {} where the store does not say.

        Raises:
            RequestError: `record_not_found`.
            StoreError: `invalid_source_metadata`, `invalid_text_encoding`.
        """
        return source_of(self._layout.columns, self._row(record_id))

    def iter_records(self) -> Iterator[Passage]:
        """Yield all records in the order of their ids, a page at a time.

        Raises:
            StoreError: what is wrong with a record, `memory_budget_exceeded`.
        """
        last: NativeId | None = None
        while page := self._page(last):
            yield from page
            last = page[-1].id

    def search(
        self, query: Sequence[float] | str, limit: int = 10, embedder: Embedder | None = None
    ) -> list[DenseHit]:
        """Return the nearest *limit* records (1 to 1,000), best first, ties by id as text.

        Raises:
            RequestError: `invalid_query_vector`; `query_model_mismatch` for a text without an embedder
                of the store's model.
            StoreError: `invalid_vector`, `memory_budget_exceeded`, naming the record.
        """
        from .scan import Bounds, evidence_of, nearest  # numpy

        layout, memory = self._layout, self._memory_bytes
        vector = self._embedded(query, embedder) if isinstance(query, str) else query
        budget = Budget.lasting(_LONGEST_S)

        def work(db: StoreConnection) -> list[DenseHit]:
            found = nearest(db, layout, vector, Bounds(limit, budget, memory))
            made = (passage_of(layout, row) for row in evidence_of(db, layout, found, memory))
            return [
                DenseHit(each.id, each.text, each.source, near.score, layout.metric, layout.direction)
                for near, each in zip(found, made, strict=True)
            ]

        return self._ask(work)

    def _embedded(self, query: str, embedder: Embedder | None) -> Sequence[float]:
        if embedder is None or embedder.model != self._layout.model:
            given = "no embedder" if embedder is None else f"an embedder of {embedder.model!r:.80}"
            raise RequestError(
                "query_model_mismatch",
                f"the store's vectors are of {self._layout.model!r:.80}, given {given}",
            )
        return embedder.embed(query)

    def _row(self, record_id: NativeId) -> Sequence[Any]:
        row = self._ask(lambda db: find(db, self._layout.columns, record_id))
        if row is None:
            raise RequestError("record_not_found", f"no {named(record_id)} in the store")
        return row

    def _page(self, last: NativeId | None) -> list[Passage]:
        """Return the records after *last*: as many as fit half the memory, and one at least."""
        record_id = quoted(self._layout.columns.id)
        condition, arguments = ("1", ()) if last is None else (f"{record_id} > ?", (last,))

        def work(db: StoreConnection) -> list[Passage]:
            page: list[Passage] = []
            left = self._memory_bytes // 2
            for row in passages(
                db, self._layout.columns, f"{condition} ORDER BY {record_id} LIMIT {_PAGE_ROWS}", *arguments
            ):
                page.append(self._bounded(passage_of(self._layout, row)))
                left -= len(page[-1].text)
                if left < 0:
                    break
            return page

        return self._ask(work)

    def _bounded(self, passage: Passage) -> Passage:
        if len(passage.text.encode()) > self._memory_bytes:
            raise StoreError(
                "memory_budget_exceeded",
                f"record: {named(passage.id)} needs more than the budget of {self._memory_bytes} bytes",
            )
        return passage

    def _ask(self, function: Callable[[StoreConnection], T]) -> T:
        try:
            return ask(self._db, function, Budget.lasting(_LONGEST_S))
        except StoreMoved as error:
            raise StoreError("sqlite_snapshot_changed", "the store changed while it was read") from error


def _open(path: Path) -> StoreConnection:
    try:
        check_sidecars(path)
        if path.is_file():
            check_header(path)
        else:
            take_signature(path)  # which says what else it is
        # No copy is ever made: what would need one was refused just now.
        return open_store(path, copies=path, copy_limit_bytes=0, budget=Budget.lasting(_LONGEST_S))
    except OSError as error:
        raise from_os(error) from error


def _manifest(path: Path) -> bytes:
    try:
        return read_manifest(path)
    except OSError as error:
        raise StoreError("invalid_manifest", f"the manifest cannot be read: {error.strerror}") from error
