"""The commands that ask context stores."""

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from collated import protocol
from collated.errors import RequestFailed
from collated.protocol_context import Parameter

from . import render, render_context
from .code_commands import TypedError
from .line import Line, line
from .outcome import FOUND, NOTHING, PARTIAL, of_result
from .session import Session
from .typed import Condition, Typed

__all__ = ["CONTEXT_COMMANDS", "filter_of", "parameters_of", "statement_of"]

_FORMAT = "contextful"
_LONGEST_BYTES = 4 * 65_536  # of a statement that the daemon takes
_SPARE_MS = 5_000  # beside a statement's own time: for a worker to start and open the store

Described = dict[str, Any]


# --------------------------------------------------------------------------- tables


def _tables(session: Session) -> int:
    given = session.arguments
    if given.store is None:
        if given.table is not None:
            raise TypedError("--table is of one store; name that store before it")
        return _every_table(session)
    return _tables_of(session) if given.table is None else _one_table(session)


def _every_table(session: Session) -> int:
    found: dict[str, Described] = {}
    failed: list[protocol.Failure] = []
    listed: protocol.StoresResult = session.ask("stores")
    stores = [store for store in listed.stores if _is_ours(store)]
    for store in stores:
        try:
            found[store.name] = _describe(session, store.name)
        except RequestFailed as error:
            failed.append(protocol.Failure(store.name, error.code, error.message))
    if session.arguments.json:
        named = [{"store": name, **described} for name, described in found.items()]
        session.show_json({"stores": named, "failed": failed})
    else:
        session.show(render_context.listing(found, _width()))
    if not stores:
        session.note([line("no context stores; `collate add PROJECT` adds one")])
    session.note(render.failures(protocol.Answered(len(stores), len(found), 0, failed)))
    return _outcome(any(each["tables"] for each in found.values()), is_whole=not failed)


def _is_ours(store: protocol.StoreStatus) -> bool:
    """Tell whether it is a context store; one that was refused has no format yet, but is a directory."""
    if store.format is not None:
        return store.format == _FORMAT
    from collated_readers.opening.directories import is_directory_store

    with suppress(OSError):
        return is_directory_store(Path(store.path))
    return False


def _tables_of(session: Session) -> int:
    store: str = session.arguments.store
    listing = _describe(session, store)
    listing["tables"] = [_described(session, store, entry) for entry in listing["tables"]]
    if session.arguments.json:
        session.show_json(listing)
    else:
        session.show(render_context.tables(listing, _width()))
    return _outcome(bool(listing["tables"]), is_whole=not any("fault" in each for each in listing["tables"]))


def _described(session: Session, store: str, entry: Described) -> Described:
    """Return all that is known of a table, or why it cannot be read: the others are shown all the same."""
    if "fault" in entry:
        return entry
    try:
        return {**entry, **_describe(session, store, entry["table"])}
    except RequestFailed as error:
        return {**entry, "fault": {"code": error.code, "message": error.message}}


def _one_table(session: Session) -> int:
    described = _describe(session, session.arguments.store, session.arguments.table)
    if session.arguments.json:
        session.show_json(described)
    else:
        session.show(render_context.columns(described, _width()))
    return FOUND


def _describe(session: Session, store: str, table: str | None = None) -> Described:
    given = session.arguments
    params = protocol.DescribeParams(store=store, table=table, deadline_ms=given.deadline_ms, sync=given.sync)
    described: Described = session.ask("context.describe", params)
    return described


def _outcome(is_found: bool, *, is_whole: bool) -> int:
    if not is_whole:
        return PARTIAL
    return FOUND if is_found else NOTHING


# --------------------------------------------------------------------------- rows


def _query(session: Session) -> int:
    given = session.arguments
    params = protocol.QueryParams(
        sql=_statement(given.sql), parameters=parameters_of(given.parameters or ()), **_read(session)
    )
    result: protocol.ContextTable = session.ask("context.query", params)
    return _show(session, result, render_context.rows(result, _width()))


def _retrieve(session: Session) -> int:
    given = session.arguments
    params = protocol.RetrieveParams(
        query=" ".join(given.query),
        prefix=given.prefix,
        tables=given.tables,
        kinds=given.kinds,
        filter=filter_of(given.conditions or ()),
        since=given.since,
        limit=given.limit,
        **_read(session),
    )
    result: protocol.ContextTable = session.ask("corpus.retrieve", params)
    return _show(session, result, render_context.retrieved(given.store, result))


def _read(session: Session) -> dict[str, Any]:
    given = session.arguments
    deadline_ms: int | None = given.deadline_ms
    if deadline_ms is None and given.timeout is not None:  # or the daemon's own deadline would come first
        deadline_ms = given.timeout + _SPARE_MS
    return {
        "store": given.store,
        "as_of": given.as_of,
        "valid_as_of": given.valid_as_of,
        "available_as_of": given.available_as_of,
        "max_duration_ms": given.timeout,
        "max_response_bytes": given.limit_bytes,
        "internals": given.internals,
        "deadline_ms": deadline_ms,
        "sync": given.sync,
    }


def _show(session: Session, result: protocol.ContextTable, lines: Iterable[Line]) -> int:
    if session.arguments.json:
        session.show_json(result)
    else:
        session.show(lines)
        session.note(render_context.notes(result))
    return of_result(result)


def parameters_of(typed: Iterable[Typed]) -> dict[str, Parameter] | None:
    """Return the values of placeholders as the wire has them, None for none.

    Raises:
        TypedError: two have one name.
    """
    found: dict[str, Parameter] = {}
    for name, kind, value in typed:
        if name in found:
            raise TypedError(f"--param {name} is given twice")
        found[name] = msgspec.convert({"type": kind, "value": value}, Parameter)
    return found or None


def filter_of(conditions: Iterable[Condition]) -> dict[str, Any] | None:
    """Return conditions as the wire has them, None for none; of one column several values are a choice."""
    found: dict[str, list[str]] = {}
    for column, value in conditions:
        found.setdefault(column, []).append(value)
    return {column: values if len(values) > 1 else values[0] for column, values in found.items()} or None


def _statement(typed: str) -> str:
    return statement_of(sys.stdin.buffer.read(_LONGEST_BYTES + 1)) if typed == "-" else typed


def statement_of(content: bytes) -> str:
    """Return the statement that standard input holds.

    Raises:
        TypedError: it is no text, or longer than the daemon takes.
    """
    if len(content) > _LONGEST_BYTES:
        raise TypedError(f"the statement has more than {_LONGEST_BYTES} bytes, which none has")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise TypedError("the statement is not text in UTF-8") from error


def _width() -> int | None:
    """Return how wide the terminal is, None where there is none: programs get all of every cell."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


CONTEXT_COMMANDS: Mapping[str, Callable[[Session], int]] = {
    "tables": _tables,
    "query": _query,
    "retrieve": _retrieve,
}
