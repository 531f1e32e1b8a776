"""Results of the wire as lines that a person reads at a glance. Pure; all text comes out harmless."""

from collections.abc import Iterator

from msgspec import UNSET

from collated.errors import RequestFailed
from collated.escape import visible, visible_text
from collated.protocol import (
    Answered,
    Changes,
    ContextRecord,
    Failure,
    GrepResult,
    IndexResult,
    NeighboursResult,
    ReadResult,
    Record,
    ReloadResult,
    SearchResult,
)

from .advice import advice
from .line import Line, Span, line, marked, verbatim

__all__ = ["changes", "error", "failures", "grep", "index", "neighbours", "read", "reload", "search"]

_SNIPPET_INDENT = 4
_HANG = 2


def search(result: SearchResult) -> Iterator[Line]:
    """Return each hit as its place, heading, tier and score, then its snippet and where else its text is."""
    for hit in result.hits:
        yield line(
            *_place(hit.store, hit.id),
            "  ",
            Span(visible(hit.heading_path), "heading"),
            "  ",
            Span(f"{hit.tier} {hit.score:.2f}", "aside"),
            hang=_HANG,
        )
        yield marked(visible(hit.snippet), _SNIPPET_INDENT)
        if hit.also:
            copies = "  ".join(visible(ref) for ref in hit.also)
            yield line(Span(f"the same text: {copies}", "aside"), indent=_SNIPPET_INDENT)


def grep(result: GrepResult, pattern: str | None) -> Iterator[Line]:
    """Return each match as its place and heading, then its line; *pattern* is None for a regex."""
    for match in result.matches:
        heading = Span(visible(match.heading_path), "heading")
        at = match.id if match.line_number is UNSET else f"{match.doc}:{match.line_number}"
        yield line(*_place(match.store, at), "  ", heading, hang=_HANG)
        yield _found(visible(match.line.strip()), visible(pattern or ""))


def _found(text: str, pattern: str) -> Line:
    # Folding can change lengths (`İ`), and then the places are not those of `text`.
    folded, wanted = text.lower(), pattern.lower()
    if not wanted or len(folded) != len(text):
        return line(text, indent=_SNIPPET_INDENT)
    spans: list[Span] = []
    start = 0
    while (at := folded.find(wanted, start)) >= 0:
        end = at + len(wanted)
        spans += [Span(text[start:at]), Span(text[at:end], "found")]
        start = end
    return line(*spans, text[start:], indent=_SNIPPET_INDENT)


def read(result: ReadResult) -> Iterator[Line]:
    """Return the record among its context, in document order, and what comes before and after it."""
    before = _count_before(result)
    for record in result.context[:before]:
        yield from _record(record)
    yield from _record(result)
    for record in result.context[before:]:
        yield from _record(record)
    if not result.context:
        for word, record_id in (("before", result.prev_id), ("after", result.next_id)):
            if record_id is not None:
                yield line(Span(f"{word}: {visible(result.store)}:{visible(record_id)}", "aside"))


def _count_before(result: ReadResult) -> int:
    """Return how many of the context's records come before the one that was asked for."""
    for position, record in enumerate(result.context):
        if record.next_id == result.id:
            return position + 1
    return 0


def neighbours(result: NeighboursResult) -> Iterator[Line]:
    """Return the records in document order, after the head of the table that they continue."""
    if result.header is not None:
        yield from _record(result.header, "head of the table")
    for record in result.records:
        yield from _record(record)


def _record(record: Record, note: str = "") -> Iterator[Line]:
    kind = note or ("context" if isinstance(record, ContextRecord) else visible(record.kind))
    yield line(
        *_place(record.store, record.id),
        "  ",
        Span(visible(record.heading_path), "heading"),
        "  ",
        Span(kind, "aside"),
        hang=_HANG,
    )
    yield from verbatim(visible_text(record.text))
    yield line()


def index(result: IndexResult) -> Iterator[Line]:
    """Return the lines of a table of contents."""
    for row in visible_text(result.text).splitlines():
        yield line(row, hang=_HANG)


def changes(result: Changes) -> Iterator[Line]:
    """Return one line for each store that came, changed or went."""
    for word, names in (("added", result.added), ("changed", result.changed), ("removed", result.removed)):
        for name in names:
            yield line(f"{word:8}", Span(visible(name), "store"))


def reload(result: ReloadResult) -> Iterator[Line]:
    """Return the settings that changed, then the stores that came or went with them."""
    for key in result.settings:
        yield line(f"{'setting':8}", visible(key))
    yield from changes(result.stores)


def failures(stores: Answered) -> Iterator[Line]:
    """Return, for each store that did not answer, why and what to do about it."""
    for failure in stores.failed:
        yield line(f"{visible(failure.store)} did not answer: {_reason(failure)}")


def _reason(failure: Failure) -> str:
    return f"{visible(failure.message)} ({visible(failure.code)}); {advice(failure.code)}"


def error(failed: RequestFailed) -> Iterator[Line]:
    """Return what went wrong, in as many lines as whoever says it takes, and what the daemon suggests."""
    for row in failed.message.splitlines():
        yield line(visible(row))
    if failed.suggestion:
        yield line(visible(failed.suggestion))
    if failed.retry_after_ms:
        yield line(f"try again in {failed.retry_after_ms} ms")


def _place(store: str, record_id: str) -> tuple[Span, ...]:
    return Span(f"{visible(store)}:", "store"), Span(visible(record_id), "place")
