"""`symbols`, `references`, `impact`, `chunk`, `architecture`: questions to code stores (DESIGN §6)."""

from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from collated_readers import Budget, Reader, RequestError, StoreError
from collated_readers.code import (
    DEPTH_LIMITS,
    SYMBOL_LIMITS,
    Chunk,
    CodeReader,
    Coverage,
    Impact,
    References,
    Symbol,
    Symbols,
    SymbolTable,
    TabledReader,
)
from collated_readers.contract import clamped
from collated_readers.opening import StoreConnection

from . import protocol
from .cache import Cache
from .catalog import project_root, shown
from .errors import RequestFailed
from .fanout import Fanout
from .gathering import Ask, Gathering
from .merge_code import MOST_BYTES, Room, merge_files, merge_nodes, merge_references, merge_symbols, size_of
from .protocol import (
    ArchitectureParams,
    ArchitectureResult,
    ChunkParams,
    ChunkResult,
    ImpactParams,
    ImpactResult,
    PartialGraph,
    ReferencesParams,
    ReferencesResult,
    SymbolsParams,
    SymbolsResult,
)
from .reading import Reading
from .selection import Selection

__all__ = ["Coding", "inside"]

T = TypeVar("T", bound=Struct)


# Symbols are looked up in memory while the files of all stores that are asked are no larger than this: of
# more, most would be read anew for each question. Their symbols take an eighth of it.
_TABLED_BYTES = 256 * 1024 * 1024
_TABLES_BYTES = 64 * 1024 * 1024
# Where tables together have more, or may show more, the event loop does not look them up: a tenth of a
# millisecond for a thousand names, and a third for as many symbols that are shown.
_SYMBOLS_AT_ONCE = 50_000
_SHOWN_AT_ONCE = 2_000


class _There(Struct, frozen=True):
    """What a store has at a place: one chunk, or none."""

    chunks: tuple[Chunk, ...]


class Coding:
    """Answers what is asked of the code stores that a request addresses."""

    def __init__(self, fanout: Fanout, reading: Reading, cache: Cache) -> None:
        """Ask through *fanout*, one store by *reading*; keep each store's part of an answer in *cache*."""
        self._fanout = fanout
        self._reading = reading
        self._gathering = Gathering(fanout, cache)
        self._tables = Gathering(fanout, Cache(_TABLES_BYTES))
        self._thread = anyio.CapacityLimiter(1)

    async def symbols(self, params: SymbolsParams, budget: Budget) -> SymbolsResult:
        """Return the definitions of a name.

        Raises:
            RequestFailed: `unknown_store`, `invalid_params`, `deadline_exceeded` when no store answered.
        """
        limit = clamped(params.limit, SYMBOL_LIMITS)
        name = _given("name", params.name)
        selection = self._fanout.choosing.select("symbols", params.stores, params.formats)

        answers = await self._symbols(selection, name, limit, budget, exact=params.exact)
        how, found, has_more = merge_symbols(answers, limit)
        room, outcome = Room(), selection.outcome()
        return SymbolsResult(
            symbols=room.take(_symbol(store, each) for store, each in found),
            how=how,
            more=sum(each.more for each in answers.values() if each.symbols and each.how == how),
            truncated=has_more or room.is_cut,
            complete=not outcome.failed,
            stores=outcome,
        )

    async def references(self, params: ReferencesParams, budget: Budget) -> ReferencesResult:
        """Return where a name is used and defined.

        Raises:
            RequestFailed: as `symbols`.
        """
        limit = clamped(params.limit, SYMBOL_LIMITS)
        name, kind, path = _given("name", params.name), params.kind, params.path or None
        selection = self._fanout.choosing.select("references", params.stores, params.formats)

        def ask(reader: Reader, db: StoreConnection, _: Budget) -> References:
            return _code(reader).references(db, name, kind, path, limit)

        answers = await self._gathered("references", selection, (name, kind, path, limit), ask, budget)
        found, has_more = merge_references(answers, limit)
        coverages = {store: each.coverage for store, each in answers.items() if each.references}
        room, outcome = Room(), selection.outcome()
        return ReferencesResult(
            references=room.take(protocol.Reference(store, *astuple(each)) for store, each in found),
            coverage=room.take(_partial(coverages)),
            truncated=has_more or room.is_cut,
            complete=not outcome.failed,
            stores=outcome,
        )

    async def impact(self, params: ImpactParams, budget: Budget) -> ImpactResult:
        """Return what a walk over the graph from a target comes to.

        Raises:
            RequestFailed: as `symbols`.
        """
        limit = clamped(params.limit, SYMBOL_LIMITS)
        depth = clamped(params.depth, DEPTH_LIMITS)
        target, direction = _given("target", params.target), params.direction
        selection = self._fanout.choosing.select("impact", params.stores, params.formats)

        def ask(reader: Reader, db: StoreConnection, hop: Budget) -> Impact:
            return _code(reader).impact(db, target, direction, depth, hop)

        answers = await self._gathered("impact", selection, (target, direction, depth), ask, budget)
        found, has_more = merge_nodes(answers, limit)
        paths, has_more_files = merge_files(answers, limit)
        coverages = {store: each.coverage for store, each in answers.items() if each.is_known}
        room, outcome = Room(), selection.outcome()
        return ImpactResult(
            nodes=room.take(protocol.Node(store, *astuple(each)) for store, each in found),
            files=room.take(protocol.File(*each) for each in paths),
            known_in=list(coverages),
            coverage=room.take(_partial(coverages)),
            truncated=has_more or has_more_files or room.is_cut,
            complete=not outcome.failed,
            stores=outcome,
        )

    async def chunk(self, params: ChunkParams, budget: Budget) -> ChunkResult:
        """Return what stands at a place, in each store that has it.

        Raises:
            RequestFailed: as `symbols`; where a store is named as `Reading.read`, `unknown_id` among them.
        """
        path = _given("path", params.path)
        if params.line < 1:
            raise RequestFailed("invalid_params", "`line` counts from 1")
        ask = partial(_chunk, path, params.line)
        if params.store is not None:
            asked = self._reading.one("chunk", params.store)
            there = await self._reading.ask(asked, lambda db: ask(asked.reader, db, budget), budget)
            return ChunkResult([_shown(params.store, there)], False, True, protocol.Answered(1, 1))
        selection = self._fanout.choosing.select("chunk", None, None)
        answers = await self._gathered("chunk", selection, None, partial(_chunks, ask), budget)
        room = Room()
        chunks = room.take(_shown(store, chunk) for store, there in answers.items() for chunk in there.chunks)
        outcome = selection.outcome()
        return ChunkResult(chunks, truncated=room.is_cut, complete=not outcome.failed, stores=outcome)

    async def architecture(self, params: ArchitectureParams, budget: Budget) -> ArchitectureResult:
        """Return the report that a program left in its store.

        Raises:
            RequestFailed: as `Reading.read`.
        """
        asked = self._reading.one("architecture", params.store)
        report = await self._reading.ask(asked, lambda db: _report(asked.reader, db), budget)
        return ArchitectureResult(params.store, report)

    async def _symbols(
        self, selection: Selection, name: str, limit: int, budget: Budget, *, exact: bool
    ) -> Mapping[str, Symbols]:
        if _are_tabled(selection):
            tables = await self._tables.gather("symbols", selection, (), _table, budget)
            selection.raise_fault()
            find = partial(_found, tables, name, limit, exact=exact)
            if _is_quick(tables, limit):
                return find()
            return await anyio.to_thread.run_sync(find, limiter=self._thread)

        def ask(reader: Reader, db: StoreConnection, _: Budget) -> Symbols:
            return _code(reader).symbols(db, name, limit, exact=exact)

        return await self._gathered("symbols", selection, (name, limit, exact), ask, budget)

    async def _gathered(
        self, method: str, selection: Selection, key: tuple[Hashable, ...] | None, ask: Ask[T], budget: Budget
    ) -> Mapping[str, T]:
        answers = await self._gathering.gather(method, selection, key, ask, budget)
        selection.raise_fault()
        return answers


# --------------------------------------------------------------------------- asking one store


def _code(reader: Reader) -> CodeReader:
    return cast("CodeReader", reader)  # who has these capabilities has their methods


def _are_tabled(selection: Selection) -> bool:
    """Tell whether the symbols of all stores can be held in memory at once."""
    readers = (reader for reader, _, _ in selection.chosen.formats)
    signatures = (store.signature for store in selection.chosen.stores)
    size = sum(each.size + each.wal_size for each in signatures if each is not None)
    return size <= _TABLED_BYTES and all(isinstance(reader, TabledReader) for reader in readers)


def _table(reader: Reader, db: StoreConnection, _: Budget) -> SymbolTable:
    return cast("TabledReader", reader).symbol_table(db)


def _is_quick(tables: Mapping[str, SymbolTable], limit: int) -> bool:
    """Tell whether the event loop has the time to look a name up in all of *tables*."""
    size = sum(table.size for table in tables.values())
    return size <= _SYMBOLS_AT_ONCE and limit * len(tables) <= _SHOWN_AT_ONCE


def _found(tables: Mapping[str, SymbolTable], name: str, limit: int, *, exact: bool) -> dict[str, Symbols]:
    return {store: table.find(name, limit, exact=exact) for store, table in tables.items()}


def _chunk(path: str, line: int, reader: Reader, db: StoreConnection, _: Budget) -> Chunk:
    chunk = _code(reader).chunk(db, inside(path, project_root(str(db.path))), line)
    _check_size("chunk", size_of(chunk))
    return chunk


def _chunks(ask: Ask[Chunk], reader: Reader, db: StoreConnection, budget: Budget) -> _There:
    try:
        return _There((ask(reader, db, budget),))
    except RequestError as error:
        if error.code != "unknown_id":
            raise
        return _There(())


def _report(reader: Reader, db: StoreConnection) -> dict[str, Any] | None:
    report = _code(reader).architecture(db)
    try:
        size = max(size_of(report), len(msgspec.msgpack.encode(report)))  # which knows no larger numbers
    except (OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise StoreError("damaged", "the store's report holds what cannot be sent") from error
    _check_size("report", size)
    return None if report is None else dict(report)


def _check_size(what: str, size: int) -> None:
    if size > MOST_BYTES:
        raise StoreError("damaged", f"the store's {what} has {size} bytes, and {MOST_BYTES} are the most")


def inside(path: str, root: str | None) -> str:
    """Return *path* as it is in the project at *root*, if it is an absolute one in there; else as it is."""
    return path.removeprefix(f"{shown(root).rstrip('/')}/") if root else path


# --------------------------------------------------------------------------- for the wire


def _given(name: str, value: str) -> str:
    if not value:
        raise RequestFailed("invalid_params", f"`{name}` must not be empty")
    return value


def _partial(coverages: Mapping[str, Coverage]) -> Iterator[PartialGraph]:
    return (
        PartialGraph(store, list(coverage.languages), coverage.reason)
        for store, coverage in coverages.items()
        if coverage.is_partial
    )


def _symbol(store: str, symbol: Symbol) -> protocol.Symbol:
    return protocol.Symbol(store, *astuple(symbol))


def _shown(store: str, chunk: Chunk) -> protocol.Chunk:
    return protocol.Chunk(
        store=store,
        id=chunk.id,
        ref=f"{store}:{chunk.id}",
        path=chunk.path,
        line_start=chunk.line_start,
        line_end=chunk.line_end,
        kind=chunk.kind,
        text=chunk.text,
        sha256=chunk.sha256,
        symbol=_symbol(store, chunk.symbol) if chunk.symbol else None,
    )
