"""One state of one store under one set of bounds, in an engine that is locked (guard.md §5).

Only the worker process imports this module. A relation is registered when it is first touched: its files'
footers are read then, by the locked engine, so that a store of many tables opens at once.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import duckdb

from collated_readers.codes import RequestError

from .cells import encode
from .deadlines import Deadline
from .guard import decode_tree
from .listing import check_parts, files_of
from .locking import locked_engine
from .model import Bounds, Column, ContextStore, FileList
from .plans import Plans, Values, bindable
from .reads import Page
from .refusals import refused
from .relations import LEDGER_SUFFIX, landed, ledger_of, relation_of
from .responses import SESSION_ZONE, admits
from .scanning import described, scanned
from .schemas import quoted

__all__ = ["Session", "open_session"]

_LONGEST_MESSAGE = 2_000  # characters
_LINE = re.compile(r"(?<=\n)LINE (\d+):", re.ASCII)
_ABSOLUTE = re.compile(r"(?<![\w./])/(?:[^\s/'\"\])]+/)+[^\s'\"\])]*")


def open_session(store: ContextStore, bounds: Bounds, *, memory_bytes: int, threads: int) -> Session:
    """Return a session of *store* under *bounds*; close it when the store's digest moved on.

    It opens no file yet. A table that cannot be read stands in nobody's way but its own.
    """
    return Session(store, bounds, memory_bytes=memory_bytes, threads=threads)


_NO_MEMORY = "it takes more memory than it may; ask for fewer rows or columns, or group by fewer values"


class Session:
    """Implements `Reads` over DuckDB. For one thread; only `interrupting` has one of its own."""

    def __init__(self, store: ContextStore, bounds: Bounds, *, memory_bytes: int, threads: int) -> None:
        """Select the files of *store* under *bounds*; the engine comes with the first question."""
        self._store = store
        self._bounds = bounds
        self._tables = {
            name: table for name, table in store.tables.items() if table.declared.withheld is None
        }
        self._relations = frozenset(
            [*self._tables, *(_ledger(name) for name in self._tables if self._is_open(name))]
        )
        self._faults = _ambiguous(self._relations)
        self._files = {name: self._list(name) for name in self._tables}
        self._columns: dict[str, tuple[Column, ...]] = {}
        self._plans = Plans()
        self._deadlines: list[Deadline] = []  # each within the one before
        self._root = re.compile(re.escape(store.root) + r"(?:/[A-Za-z0-9._%=/-]*)?")
        self._memory_bytes = memory_bytes
        self._threads = threads
        self._engine: duckdb.DuckDBPyConnection | None = None

    def close(self) -> None:
        """Let go of the engine and its memory; another question would begin with a fresh one."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None
        self._columns.clear()

    # ------------------------------------------------------------------------ what there is

    @property
    def store(self) -> ContextStore:
        """Return the store's state."""
        return self._store

    @property
    def bounds(self) -> Bounds:
        """Return the bounds that are built into the relations."""
        return self._bounds

    @property
    def relations(self) -> frozenset[str]:
        """Return the names of all relations: tables that are served, and open ledgers."""
        return self._relations

    @property
    def closed(self) -> Mapping[str, str]:
        """Return why ledgers that exist are closed, by name."""
        why = f"its table is not for the zone {SESSION_ZONE}"
        return {_ledger(name): why for name in self._tables if not self._is_open(name)}

    def _is_open(self, table: str) -> bool:
        """Return whether the session's zone may see the rows of *table*."""
        return admits(self._tables[table].declared.zone_allow)

    def columns(self, relation: str) -> tuple[Column, ...]:
        """Return the columns of a relation as it is registered, in order."""
        self.touch([relation])
        return self._columns[relation]

    def files(self, table: str) -> FileList:
        """Return the files that a table's relation reads."""
        found = self._files.get(table)
        if found is None:
            raise refused("EnforceUnknownRelation", f"no relation {table!r:.200}")
        if isinstance(found, RequestError):
            raise found.with_traceback(None)
        return found

    def touch(self, relations: Sequence[str]) -> None:
        """Raise what stands against reading one of *relations* (RequestError), the first by name.

        Raises:
            RequestError: `EnforceUnknownRelation`; the table's fault, `ReadPartUnavailable`, what the
                bounds or the declaration ask of its columns; `engine_error` for a damaged part.
        """
        for name in sorted(set(relations)):
            if name not in self._relations:
                raise refused("EnforceUnknownRelation", f"no relation {name!r:.200}")
            if name in self._faults:
                raise self._faults[name].with_traceback(None)
            self._check_there(name)
            if name not in self._columns:
                self._columns[name] = self._register(name)

    # ------------------------------------------------------------------------ asking

    def tree(self, text: str) -> Any:
        """Return the engine's own serialized tree of *text*, decoded; runs nothing of it.

        Raises:
            RequestError: `StatementNotReadOnly`, for what is nested too deeply.
        """
        with self._cursor() as cursor:
            # With the line end that `plans` gives it: a no-break space that ends a text is a letter to the
            # engine, so that what is judged would name another relation than what runs.
            serialized = "SELECT json_serialize_sql(CAST(? AS VARCHAR))"
            found = cursor.execute(serialized, [f"{text}\n"]).fetchone()
        assert found is not None  # noqa: S101 - a SELECT without FROM
        return decode_tree(found[0])

    def query(self, sql: str, values: Values = (), limit: int | None = None) -> Page:
        """Return at most *limit* rows of one statement, JSON cells.

        Raises:
            RequestError: `engine_error`, without any path; `ReadPartUnavailable`; `ReadDurationExceeded`.
        """
        self._register_named(sql)
        with self._cursor(wrapped=True) as cursor:
            plan = self._plans.plan(cursor, sql, values)
            limited = plan.sql if limit is None else f"{plan.sql} LIMIT {limit + 1}"
            rows = cursor.execute(limited, bindable(values)).fetchall()
            is_more = limit is not None and len(rows) > limit
            return Page(plan.columns, encode(plan.cells, rows[:limit]), is_more)

    def fetch(self, sql: str, values: Values = ()) -> list[dict[str, Any]]:
        """Return all rows as Python values by column, for what we compose of them ourselves.

        Raises:
            RequestError: as `query`.
        """
        self._register_named(sql)
        with self._cursor() as cursor:
            rows = cursor.execute(sql, bindable(values)).fetchall()
            names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows]

    @contextlib.contextmanager
    def interrupting(self, ms: int | None, source: str = "request") -> Generator[None]:
        """Stop what is asked within the block *ms* after it was entered; None never stops.

        Raises:
            RequestError: `ReadDurationExceeded`, also when all was asked but past the deadline.
        """
        if ms is None:
            yield
            return
        with Deadline(ms, source) as deadline:
            self._deadlines.append(deadline)
            try:
                yield
            finally:
                self._deadlines.pop()
        deadline.check()

    # ------------------------------------------------------------------------ within

    def _opened(self) -> duckdb.DuckDBPyConnection:
        """Return the engine, which may open the files that the bounds select."""
        if self._engine is not None:
            return self._engine
        listed = [files.files for files in self._files.values() if isinstance(files, FileList)]
        ledgers = [table.ledger for table in self._tables.values()]
        paths = [f"{self._store.root}/{file}" for files in (*listed, *ledgers) for file in files]
        self._engine = locked_engine(paths, memory_bytes=self._memory_bytes, threads=self._threads)
        return self._engine

    def _check_there(self, relation: str) -> None:
        """Refuse a relation of which a file is gone."""
        table = self._tables.get(relation)
        if table is not None:
            return check_parts(self._store.root, table, self.files(relation))
        owner = self._tables[relation.removesuffix(LEDGER_SUFFIX)]
        try:
            return check_parts(self._store.root, owner, FileList(owner.ledger))
        except RequestError as error:
            # Ledgers have no run's name to be told by, and what they are called is a path.
            message = f"table '{owner.name}': a file of its request ledger is not there"
            raise refused("ReadPartUnavailable", message) from error

    def _list(self, name: str) -> FileList | RequestError:
        try:
            return files_of(self._store.root, self._tables[name], self._bounds)
        except RequestError as error:
            return error

    def _register(self, name: str) -> tuple[Column, ...]:
        """Register a relation and return its columns."""
        table = self._tables.get(name)
        if table is None:
            sql = ledger_of(*self._scanned(self._tables[name.removesuffix(LEDGER_SUFFIX)].ledger))
        else:
            sql = relation_of(table, *self._scanned(self.files(name).files), self._bounds)
            if not self._is_open(name):
                sql = f"SELECT * FROM ({sql}) WHERE false"  # noqa: S608 - composed here
        with self._cursor() as cursor:
            cursor.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {sql}")
            types = described(cursor, sql)
        known = {} if table is None else {column.name: column for column in landed(table)}
        return tuple(_column(column, spelled, known.get(column)) for column, spelled in types.items())

    def _scanned(self, files: Sequence[str]) -> tuple[str | None, dict[str, str]]:
        with self._cursor() as cursor:
            return scanned(cursor, [f"{self._store.root}/{file}" for file in files])

    def _register_named(self, sql: str) -> None:
        """Register the relations that *sql* may name; what stands against one is told by `touch`."""
        folded = sql.casefold()
        for name in self._relations - self._columns.keys():
            if name.casefold() in folded:
                with contextlib.suppress(RequestError):
                    self.touch([name])

    @contextlib.contextmanager
    def _cursor(self, *, wrapped: bool = False) -> Generator[duckdb.DuckDBPyConnection]:
        """Yield a connection for one statement, which the deadline may interrupt; errors are ours.

        A statement that is *wrapped* begins on the second line of what the engine is given.
        """
        cursor = self._opened().cursor()
        try:
            with contextlib.ExitStack() as watching:
                for deadline in self._deadlines:
                    watching.enter_context(deadline.watching(cursor))
                yield cursor
        except duckdb.InterruptException as error:
            for deadline in self._deadlines:
                deadline.check()
            raise refused("engine_error", "the statement was interrupted") from error
        except (duckdb.FatalException, duckdb.InternalException) as error:
            self.close()  # such an engine answers nothing more
            raise refused("engine_error", "the engine failed at this statement") from error
        except (duckdb.Error, RuntimeError, OverflowError) as error:
            raise self._refusal(error, before=int(wrapped)) from error
        finally:
            cursor.close()

    def _refusal(self, error: Exception, before: int) -> RequestError:
        """Return what is said of an error: the part that is gone, or the engine's words without any path."""
        # A file that is gone is looked for as a directory, which is not allowed.
        if isinstance(error, duckdb.IOException | duckdb.PermissionException):
            for name in self._columns:
                try:
                    self._check_there(name)
                except RequestError as gone:
                    return gone
        if isinstance(error, duckdb.OutOfMemoryException):  # whose own words advise settings that are locked
            return refused("engine_error", _NO_MEMORY)
        text = _ABSOLUTE.sub("<path>", self._root.sub("<part>", str(error)))
        text = _LINE.sub(lambda match: f"LINE {max(1, int(match[1]) - before)}:", text)
        return refused("engine_error", text[:_LONGEST_MESSAGE])


def _ledger(table: str) -> str:
    return table + LEDGER_SUFFIX


def _ambiguous(names: Iterable[str]) -> dict[str, RequestError]:
    """Return what stands against relations that the engine takes for one another: it ignores case."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.casefold(), []).append(name)
    return {
        name: refused("engine_error", f"the engine cannot tell {' and '.join(sorted(group))} apart")
        for group in groups.values()
        if len(group) > 1
        for name in group
    }


def _column(name: str, spelled: str, known: Column | None) -> Column:
    is_json = spelled == "JSON" or (known is not None and known.is_json)
    return Column(name, spelled, is_text=spelled == "VARCHAR" and not is_json, is_json=is_json)
