"""What code stores and vector stores answer, as lines that a person reads at a glance. Pure.

All text comes out harmless; a place is `path:line`, which terminals and editors follow.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from collated.escape import visible, visible_text
from collated.protocol import (
    NO_STORES,
    Answered,
    ArchitectureResult,
    Chunk,
    ChunkResult,
    ImpactResult,
    PartialGraph,
    ReferencesResult,
    SymbolsResult,
    VectorsSearchResult,
)
from collated_readers.code import How

from .line import Line, Span, line, table, verbatim

__all__ = ["architecture", "chunks", "impact", "notes", "references", "similar", "symbols"]

_INDENT = 4
_STEP = 2
_TEXT_CHARACTERS = 200
# A report has a few levels and lists of a dozen; a hostile one is not shown to its end.
_DEEPEST = 6
_LONGEST = 20

_FOUND_AS: Mapping[How, str] = {
    "prefix": "nothing is called exactly so; these names begin so",
    "parts": "nothing is called exactly so; these names have the same parts",
}


def symbols(result: SymbolsResult) -> Iterator[Line]:
    """Return each definition as its store, place, kind, name and signature."""
    return table(
        (
            _store(each.store),
            _place(each.path, each.line_start),
            Span(visible(each.kind), "aside"),
            Span(visible(each.qualified or each.name), "heading"),
            Span(visible(each.signature or "")),
        )
        for each in result.symbols
    )


def references(result: ReferencesResult) -> Iterator[Line]:
    """Return each reference as its store, place, kind, confidence, what is meant and who refers to it."""
    return table(
        (
            _store(each.store),
            _place(each.path, each.line),
            Span(visible(each.kind)),
            Span(visible(each.confidence or ""), "aside"),
            Span(visible(each.target or each.receiver or ""), "heading"),
            Span(f"in {visible(each.caller)}" if each.caller else "", "aside"),
        )
        for each in result.references
    )


def impact(result: ImpactResult) -> Iterator[Line]:
    """Return each node as its store, place, distance, name, and the edge that led there."""
    return table(
        (
            _store(each.store),
            _place(each.path, each.line_start),
            Span(str(each.distance)),
            Span(visible(each.name), "heading"),
            Span(visible(" ".join(filter(None, (each.via_edge, each.via_confidence)))), "aside"),
        )
        for each in result.nodes
    )


def chunks(result: ChunkResult) -> Iterator[Line]:
    """Return each chunk as its store, place and the symbol around it, then its text, word for word."""
    for chunk in result.chunks:
        yield line(
            _store(chunk.store),
            "  ",
            _place(chunk.path, chunk.line_start),
            Span(f"-{chunk.line_end}", "place"),
            "  ",
            Span(visible(_around(chunk)), "aside"),
            hang=_STEP,
        )
        yield from verbatim(visible_text(chunk.text.removesuffix("\n")))
        yield line()


def _around(chunk: Chunk) -> str:
    symbol = chunk.symbol
    return f"{symbol.kind} {symbol.qualified or symbol.name}" if symbol else chunk.kind


def similar(result: VectorsSearchResult) -> Iterator[Line]:
    """Return each hit as its place, heading, metric and score, then how its text begins."""
    for hit in result.hits:
        yield line(
            Span(f"{visible(hit.store)}:", "store"),
            Span(visible(hit.id), "place"),
            "  ",
            Span(visible(hit.heading_path or hit.doc), "heading"),
            "  ",
            Span(f"{hit.metric} {hit.score:.4f}", "aside"),
            hang=_STEP,
        )
        yield line(visible(" ".join(hit.text[:_TEXT_CHARACTERS].split())), indent=_INDENT)


def architecture(result: ArchitectureResult) -> Iterator[Line]:
    """Return the report as an outline."""
    yield from _outline(result.report or {}, 0)


def _outline(value: Any, depth: int) -> Iterator[Line]:
    if depth >= _DEEPEST:
        yield line(Span("…", "aside"), indent=_STEP * depth)
    elif isinstance(value, dict):
        yield from _entries(cast("dict[str, Any]", value), depth)  # as JSON has it
    else:
        yield from _items(value, depth)


def _entries(entries: Mapping[str, Any], depth: int) -> Iterator[Line]:
    for name, value in entries.items():
        flat = _flat(value)
        heading = Span(visible(name).replace("_", " "), "heading")
        yield line(heading, *([f"  {flat}"] if flat else []), indent=_STEP * depth, hang=_STEP)
        if not flat:
            yield from _outline(value, depth + 1)


def _items(items: Sequence[Any], depth: int) -> Iterator[Line]:
    for each in items[:_LONGEST]:
        if flat := _flat(each):
            yield line(flat, indent=_STEP * depth, hang=_STEP)
        else:
            yield from _outline(each, depth)
    if len(items) > _LONGEST:
        yield line(Span(f"and {len(items) - _LONGEST} more", "aside"), indent=_STEP * depth)


def _flat(value: Any) -> str:
    """Return *value* on one line if it holds no lists and but one level of names, else nothing."""
    if isinstance(value, list):
        return ""
    if not isinstance(value, dict):
        return visible(str(value))
    entries = cast("dict[str, Any]", value)  # as JSON has it
    if any(isinstance(each, dict | list) for each in entries.values()):
        return ""
    return "  ".join(f"{visible(name)} {_flat(each)}" for name, each in entries.items())


# --------------------------------------------------------------------------- beside the answer


def notes(result: Any) -> Iterator[Line]:
    """Return what a person should know of an answer beside what was found."""
    match result:
        case SymbolsResult():
            yield from _of_symbols(result)
        case ReferencesResult():
            yield from _of_references(result)
        case ImpactResult():
            yield from _of_impact(result)
        case ChunkResult(complete=True, chunks=[]) if result.stores.answered:
            yield line("no store has text at this line of such a file; `collate index STORE` lists the files")
        case VectorsSearchResult(order="rank"):
            yield line("the models or metrics differ, so hits stand as high as in their own store's list")
        case ArchitectureResult(report=None):
            yield line("the store holds no report; the program that makes it writes one with each full build")
        case _:
            pass
    yield from _of_any(result)


def _of_any(result: Any) -> Iterator[Line]:
    if getattr(result, "truncated", False):
        raised = "" if isinstance(result, ChunkResult) else "raise --limit, or "
        yield line(f"there are more; {raised}narrow with --store")
    stores: Answered | None = getattr(result, "stores", None)
    if stores is not None and stores.asked == stores.skipped:
        nobody = "none of these stores can be asked this; `collate stores` shows their formats"
        yield line(nobody if stores.asked else NO_STORES)


def _of_symbols(result: SymbolsResult) -> Iterator[Line]:
    if result.complete and not result.symbols and result.stores.answered:
        yield line("no store has a definition of that name; `collate search` and `collate grep` find texts")
    if result.how is not None and result.how in _FOUND_AS:
        yield line(_FOUND_AS[result.how])
    if result.more:
        yield line(f"{result.more} more names begin so")


def _of_references(result: ReferencesResult) -> Iterator[Line]:
    if result.complete and not result.references and result.stores.answered:
        yield line("no store knows such a name; `collate symbols` finds names, `collate grep` texts")
    yield from _partial(result.coverage)


def _of_impact(result: ImpactResult) -> Iterator[Line]:
    if result.complete and not result.known_in and result.stores.answered:
        yield line("no store knows such a file or symbol; `collate symbols` finds names")
    elif result.known_in and not result.nodes:
        yield line("it is known, and nothing is tied to it in this direction")
    yield from _partial(result.coverage)


def _partial(coverage: Sequence[PartialGraph]) -> Iterator[Line]:
    for each in coverage:
        languages = ", ".join(map(visible, each.languages)) or "the project"
        reason = f": {visible(each.reason)}" if each.reason else ""
        yield line(f"{visible(each.store)} knows {languages} in part only{reason}")


def _store(name: str) -> Span:
    return Span(visible(name), "store")


def _place(path: str, number: int | None) -> Span:
    return Span(visible(path) if number is None else f"{visible(path)}:{number}", "place")
