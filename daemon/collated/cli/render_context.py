"""What context stores answer: their tables, rows of SQL, ranked rows, and what was cut. Pure.

All text comes out harmless; *width* is the terminal's, None where a program reads.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from collated.escape import visible
from collated.protocol import ContextTable

from .grid import grid, shown
from .line import Line, Span, line
from .overview import size

__all__ = ["columns", "listing", "notes", "retrieved", "rows", "tables"]

_STEP = 2
_SUBJECT = 13
_SNIPPET_INDENT = 4
_TEXT_CHARACTERS = 200
_LEDGER = "ledger"
_INJECTED = "_"  # how the names begin of the columns that every table has

_LIMITS: Mapping[str, str] = {"max_rows": "{} rows", "max_duration_ms": "{} ms"}
_MORE: Mapping[str, str] = {
    "request": "what was asked for; raise {option}",
    "table": "the limit that a table declares",
    "template": "the limit that the template declares",
    "face": "the most that one answer has",
}


def rows(result: ContextTable, width: int | None) -> Iterator[Line]:
    """Return the rows as a table."""
    return grid(result.columns, result.rows, width)


# --------------------------------------------------------------------------- tables


def listing(stores: Mapping[str, Mapping[str, Any]], width: int | None) -> Iterator[Line]:
    """Return the tables of all *stores*, by what each store's `context.describe` lists, without ledgers."""
    found = [
        [store, each["table"], _said(each)]
        for store, described in stores.items()
        for each in described["tables"]
        if each["kind"] != _LEDGER
    ]
    return grid(("store", "table", "description"), found, width) if found else iter(())


def tables(described: Mapping[str, Any], width: int | None) -> Iterator[Line]:
    """Return the tables of one store, each as `context.describe` describes it, or the fault it has.

    Every table has a ledger of requests; those that hold nothing are left out.
    """
    found = [
        [each["table"], each.get("row_count"), limits(each), _said(each), _names(each)]
        for each in described["tables"]
        if each["kind"] != _LEDGER or each.get("row_count")
    ]
    return grid(("table", "rows", "limits", "description", "columns"), found, width) if found else iter(())


def _said(entry: Mapping[str, Any]) -> str:
    fault = entry.get("fault")
    return fault["message"] if fault else _on_one_line(entry.get("description"))


def _names(described: Mapping[str, Any]) -> str:
    names = [each["name"] for each in described.get("columns", ())]
    return ", ".join(name for name in names if not name.startswith(_INJECTED))


def limits(described: Mapping[str, Any]) -> str:
    """Return what a table's reads are held to, in words; nothing where it declares no limits."""
    declared: Mapping[str, int] = described.get("limits", {})
    told = [words.format(declared[name]) for name, words in _LIMITS.items() if name in declared]
    if (most := declared.get("max_response_bytes")) is not None:
        told.append(size(most))
    return ", ".join(told)


def columns(described: Mapping[str, Any], width: int | None) -> Iterator[Line]:
    """Return one table: what is known of it, then its columns with their types and hints."""
    for subject, text in _facts(described):
        yield line(Span(f"{subject:{_SUBJECT}}", "heading"), visible(text), hang=_SUBJECT)
    hints = described["column_hints"]
    found = [[each["name"], each["type"], hints.get(each["name"], "")] for each in described["columns"]]
    yield line()
    yield from grid(("column", "type", "hint"), found, width)


def _facts(described: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    counted = f"{described['row_count']} rows, {size(described['bytes'])} as JSON"
    indexes = [f"{each.get('kind')} of {each.get('column')}" for each in described["indexes"]]
    facts = [
        ("table", described["table"]),
        ("holds", f"{counted}, about {described['estimated_tokens']} tokens"),
        ("description", _on_one_line(described["description"])),
        ("hint", _on_one_line(described["hint"])),
        ("limits", limits(described)),
        ("indexes", ", ".join(indexes)),
        ("partitions", ", ".join(described["partition_by"])),
        *(("example", _on_one_line(each)) for each in described["example_queries"]),
    ]
    return ((subject, text) for subject, text in facts if text)


def _on_one_line(text: str | None) -> str:
    return " ".join((text or "").split())


# --------------------------------------------------------------------------- ranked rows


def retrieved(store: str, result: ContextTable) -> Iterator[Line]:
    """Return each row as its table, run and scores, then its snippet."""
    for cells in result.rows:
        yield from _row(store, dict(zip(result.columns, cells, strict=True)))


def _row(store: str, cells: Mapping[str, Any]) -> Iterator[Line]:
    yield line(
        Span(f"{visible(store)}:", "store"),
        Span(visible(str(cells.get("_table"))), "place"),
        "  ",
        Span(visible(str(cells.get("_run_id"))), "heading"),
        "  ",
        Span(_scores(cells), "aside"),
        hang=_STEP,
    )
    snippet = cells.get("_snippet") or _cells(cells.get("_row") or {})
    yield line(visible(_on_one_line(snippet[:_TEXT_CHARACTERS])), indent=_SNIPPET_INDENT)


def _scores(cells: Mapping[str, Any]) -> str:
    words, cosine = cells.get("_score"), cells.get("_vscore")
    told = [
        None if words is None else f"{words} {'word' if words == 1 else 'words'}",
        None if cosine is None else f"cosine {cosine:.4f}",
        "out of the timeframe" if cells.get("_in_window") is False else None,
    ]
    return ", ".join(filter(None, told))


def _cells(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {shown(value).text}" for name, value in row.items() if value is not None)


# --------------------------------------------------------------------------- beside the answer


def notes(result: ContextTable) -> Iterator[Line]:
    """Return what a person should know beside the rows: what cut them, and how they were read."""
    if result.truncation is not None:
        yield line(_cut(result.truncation, len(result.rows)))
    elif not result.rows:
        yield line(_nothing(result.retrieval))
    yield from _of_retrieval(result.retrieval or {})
    yield from _blocks(result.bounds, result.resolved)
    for each in (result.restriction or {}).get("relations", ()):
        yield line(f"{visible(each['table'])} is withheld: its zone does not admit this machine")
    if result.internals is not None:
        told = (f"{name.replace('_', ' ')} {shown(value).text}" for name, value in result.internals.items())
        yield line(", ".join(told))


def _cut(truncation: Mapping[str, Any], count: int) -> str:
    unit, option = ("bytes", "--limit-bytes") if truncation["by"] == "bytes" else ("rows", "--limit")
    source = _MORE.get(truncation["source"], "the limit").format(option=option)
    return f"there are more than these {count} rows: {truncation['ceiling']} {unit} are {source}"


def _nothing(retrieval: Mapping[str, Any] | None) -> str:
    if not (floor := (retrieval or {}).get("floor")):
        return "no rows"
    return f"no row has {'any' if floor == 1 else f'at least {floor}'} of these words"


def _of_retrieval(retrieval: Mapping[str, Any]) -> Iterator[Line]:
    if (since := retrieval.get("since")) is not None:
        within = f"{retrieval['in_window']} of {retrieval['returned']} rows are from {visible(since)} on"
        yield line(f"{within}; the others come after them")


def _blocks(
    bounds: Mapping[str, Any] | None, resolved: Mapping[str, Mapping[str, Any]] | None
) -> Iterator[Line]:
    """Return under which bounds was read, and which builds that came to."""
    if bounds:
        given = [f"{name.replace('_', ' ')} {at}" for name, at in bounds.items() if name != "inclusive"]
        end = "that instant included" if bounds.get("inclusive") else "that instant not included"
        yield line(f"read {', '.join(map(visible, given))}, {end}")
    for name, build in (resolved or {}).items():
        mark = shown(build.get("watermark")).text
        yield line(f"{visible(name)} is build {visible(str(build.get('build_id')))}, watermark {mark}")
