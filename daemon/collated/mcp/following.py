"""What to do next, in one short sentence, after each tool's answer. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from .shapes import is_object

__all__ = ["following"]

_LONGEST_REF = 200  # beyond, a ref is not repeated
_NAMED = 5  # stores that failed

_MORE: Mapping[str, str] = {
    "grep": "More match: narrow with in= or stores=, or raise limit.",
    "symbols": "There are more: give more of the name, narrow with stores=, or raise limit.",
    "references": "There are more: narrow with path=, kind= or stores=, or raise limit.",
    "impact": "There are more: lower depth, narrow with stores=, or raise limit.",
    "query": "Not all rows are shown: ask for fewer columns, or count and sum in SQL.",
    "retrieve": "There are more rows: narrow with tables=, or raise limit.",
    "recall": "There are more claims: raise limit, or ask for another time.",
}
"""What to do where an answer is truncated."""


def following(name: str, structured: Mapping[str, Any]) -> str | None:
    """Return what a model may do after the tool *name* answered *structured*; None where that is plain."""
    said = [
        _unanswered(structured.get("stores")),
        _NEXT[name](structured) if name in _NEXT else None,
        _MORE.get(name) if structured.get("truncated") else None,
    ]
    return " ".join(each for each in said if each) or None


def _unanswered(stores: Any) -> str | None:
    """Return what to know of the stores that were asked, where not all did answer."""
    if not is_object(stores):  # only what is asked of several has them
        return None
    failed: list[dict[str, Any]] = stores["failed"]
    if not failed:
        return None if stores["asked"] or stores["skipped"] else "There is no store to ask: call stores."
    named = ", ".join(f"{each['store']} ({each['code']})" for each in failed[:_NAMED])
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    return f"Not all stores answered: {named}{more}; ask again, or call stores."


def _search(structured: Mapping[str, Any]) -> str:
    if not structured["hits"]:
        return "Nothing matched: use fewer or other words, grep for exact codes, drop in= or stores=."
    return f"{_read(structured['hits'][0])} gives the text of a hit; cite its ref."


def _grep(structured: Mapping[str, Any]) -> str:
    if not structured["matches"]:
        return "No line matched: check the spelling, drop in= or stores=, or search by words."
    return f"{_read(structured['matches'][0])} gives the text around a line; cite its ref."


def _record(structured: Mapping[str, Any]) -> str | None:
    ref = _short(structured)
    return f'Cite it as [{ref}]; neighbours(id="{ref}") gives what stands beside it.' if ref else None


def _neighbours(_: Mapping[str, Any]) -> str:
    return "Cite a record by its ref; read(id=REF, context=5) gives more around one."


def _symbols(structured: Mapping[str, Any]) -> str:
    if not structured["symbols"]:
        return "No such definition: try the beginning of the name, or search and grep for it."
    found = structured["symbols"][0]
    return f"{_chunk(found, 'line_start')} gives the code; references(name) says who uses it."


def _references(structured: Mapping[str, Any]) -> str:
    if not structured["references"]:
        return "No known use: try symbols(name) for its spelling, or grep."
    return f"{_chunk(structured['references'][0], 'line')} gives the code of a place."


def _impact(structured: Mapping[str, Any]) -> str:
    if not structured["known_in"]:
        return "No store knows the target: try symbols(name) for its spelling."
    return "chunk(path, line, store) gives the code of a place; references(name) the very lines."


def _chunks(structured: Mapping[str, Any]) -> str:
    if not structured["chunks"]:
        return "No store has that line of that file: index(prefix, stores) lists files."
    return (
        f"{_read(structured['chunks'][0])[:-1]}, context=1) gives what stands around it; cite path and line."
    )


def _architecture(structured: Mapping[str, Any]) -> str | None:
    return None if structured["report"] else "The store holds no report: try index and symbols."


def _tables(_: Mapping[str, Any]) -> str:
    return "tables(store, table) gives a table's columns; query(store, sql) asks them."


def _rows(structured: Mapping[str, Any]) -> str | None:
    return None if structured["rows"] else "No rows: check names and bounds with tables."


def _listing(_: Mapping[str, Any]) -> str:
    return "index(stores=[NAME]) gives a store's contents; search(query, stores=[NAME]) asks it."


_NEXT: Mapping[str, Callable[[Mapping[str, Any]], str | None]] = {
    "search": _search,
    "grep": _grep,
    "read": _record,
    "neighbours": _neighbours,
    "stores": _listing,
    "symbols": _symbols,
    "references": _references,
    "impact": _impact,
    "chunk": _chunks,
    "architecture": _architecture,
    "tables": _tables,
    "query": _rows,
    "retrieve": _rows,
    "recall": _rows,
}


def _short(found: Mapping[str, Any]) -> str | None:
    ref = str(found["ref"])
    return ref if len(ref) <= _LONGEST_REF else None


def _read(found: Mapping[str, Any]) -> str:
    ref = _short(found)
    return f'read(id="{ref}")' if ref else "read(id=REF)"


def _chunk(found: Mapping[str, Any], line: str) -> str:
    path = str(found["path"])
    if len(path) > _LONGEST_REF:
        return "chunk(path, line, store)"
    return f'chunk(path="{path}", line={found[line]}, store="{found["store"]}")'
