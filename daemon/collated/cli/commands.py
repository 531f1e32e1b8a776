"""The commands that ask the daemon one thing and show its answer."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from collated import protocol
from collated.escape import visible

from . import render
from .line import line
from .outcome import of_result
from .session import Session

__all__ = ["COMMANDS"]


def _search(session: Session) -> int:
    given = session.arguments
    params = protocol.SearchParams(
        query=" ".join(given.query),
        limit=given.limit,
        within=given.within,
        stores=given.stores,
        formats=given.formats,
        mode=given.mode,
        ranking=given.ranking,
        deadline_ms=given.deadline_ms,
        sync=given.sync,
        collapse=not given.every_copy,
    )
    result: protocol.SearchResult = session.ask("search", params)
    if given.json:
        session.show_json(result)
    else:
        session.show(render.search(result))
        if result.hint is not None:
            session.note([line(f"hint: {visible(result.hint)}")])
    session.note(render.failures(result.stores))
    return of_result(result)


def _grep(session: Session) -> int:
    given = session.arguments
    params = protocol.GrepParams(
        pattern=given.pattern,
        regex=given.regex,
        within=given.within,
        stores=given.stores,
        formats=given.formats,
        limit=given.limit,
        deadline_ms=given.deadline_ms,
        sync=given.sync,
    )
    result: protocol.GrepResult = session.ask("grep", params)
    if given.json:
        session.show_json(result)
    else:
        session.show(render.grep(result, None if given.regex else given.pattern))
        if result.truncated:
            session.note([line("there are more matches; raise --limit, or narrow with --in or --store")])
        if not result.stores.asked:
            session.note([line(protocol.NO_STORES)])
    session.note(render.failures(result.stores))
    return of_result(result)


def _read(session: Session) -> int:
    given = session.arguments
    params = protocol.ReadParams(given.ref, given.context, given.deadline_ms, given.sync)
    return _show(session, session.ask("read", params), render.read)


def _neighbours(session: Session) -> int:
    given = session.arguments
    params = protocol.NeighboursParams(given.ref, given.before, given.after, given.deadline_ms, given.sync)
    return _show(session, session.ask("neighbours", params), render.neighbours)


def _index(session: Session) -> int:
    given = session.arguments
    params = protocol.IndexParams(given.store, given.prefix, given.deadline_ms, given.sync)
    result: protocol.IndexResult = session.ask("index", params)
    return _show(session, result, render.index)


def _stores(session: Session) -> int:
    given = session.arguments
    result: protocol.StoresResult = session.ask("stores", protocol.StoresParams(given.stores, given.formats))
    if not result.stores and not given.json:
        session.note([line("no stores; add one with `collate add PATH`")])
    from . import overview

    return _show(session, result, partial(overview.stores, in_full=bool(given.stores)))


def _status(session: Session) -> int:
    from . import overview

    return _show(session, session.ask("status"), overview.status)


def _cache(session: Session) -> int:
    result: protocol.CacheResult = session.ask("cache", protocol.CacheParams(session.arguments.clear))
    from . import overview

    if session.arguments.clear and not session.arguments.json:
        session.note(overview.cleared(result))
    return _show(session, result, overview.cache)


def _rescan(session: Session) -> int:
    result: protocol.Changes = session.ask("rescan")
    if not (result.added or result.changed or result.removed or session.arguments.json):
        session.note([line("nothing changed")])
    return _show(session, result, render.changes)


def _reload(session: Session) -> int:
    result: protocol.ReloadResult = session.ask("reload")
    if not (result.settings or session.arguments.json):
        session.note([line("the configuration was read again; no setting changed")])
    return _show(session, result, render.reload)


def _watch(session: Session) -> int:
    with session.connect() as client:
        for change in client.subscribe():
            _show(session, change, render.changes)
    return 0


def _show(session: Session, result: Any, lines: Callable[[Any], Any]) -> int:
    if session.arguments.json:
        session.show_json(result)
    else:
        session.show(lines(result))
    return of_result(result)


COMMANDS: Mapping[str, Callable[[Session], int]] = {
    "search": _search,
    "grep": _grep,
    "read": _read,
    "neighbours": _neighbours,
    "index": _index,
    "stores": _stores,
    "status": _status,
    "cache": _cache,
    "rescan": _rescan,
    "reload": _reload,
    "watch": _watch,
}
