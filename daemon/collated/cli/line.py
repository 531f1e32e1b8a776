"""What is shown, before anything decides how: lines of spans, each with a meaning instead of a colour."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

__all__ = ["Line", "Meaning", "Span", "line", "marked", "plain", "table", "verbatim"]

_HANG = 4

Meaning = Literal["", "match", "found", "store", "place", "heading", "aside", "good", "bad"]


class Span(NamedTuple):
    """A piece of a line, already harmless (`escape`), and what it is."""

    text: str
    meaning: Meaning = ""


class Line(NamedTuple):
    """One line, *indent* columns from the left; where a terminal is narrower, it goes on below.

    Further rows are set in by *hang* columns more. A verbatim line is not broken between words.
    """

    spans: tuple[Span, ...]
    indent: int = 0
    hang: int = 0
    is_verbatim: bool = False


def line(*spans: Span | str, indent: int = 0, hang: int = 0) -> Line:
    """Return a line of *spans*; a plain string has no meaning."""
    return Line(tuple(Span(span) if isinstance(span, str) else span for span in spans), indent, hang)


def verbatim(text: str) -> Iterator[Line]:
    """Return the lines of *text*, as they are."""
    for row in text.split("\n"):
        yield Line((Span(row),), is_verbatim=True)


def marked(text: str, indent: int) -> Line:
    """Return *text* as a line whose `**…**` are matches; a mark that is never closed stays text."""
    parts = text.split("**")
    if len(parts) % 2 == 0:
        parts[-2:] = ["**".join(parts[-2:])]
    spans = (Span(part, "match" if odd % 2 else "") for odd, part in enumerate(parts))
    return Line(tuple(span for span in spans if span.text), indent)


def plain(shown: Line) -> str:
    """Return a line as text, with `**` around matches."""
    body = "".join(f"**{span.text}**" if span.meaning == "match" else span.text for span in shown.spans)
    return (" " * shown.indent + body).rstrip()


def table(rows: Iterable[Sequence[Span]]) -> Iterator[Line]:
    """Return *rows* of cells as lines with aligned columns; the last column is as long as it is."""
    cells = [list(row) for row in rows]
    widths = [max(len(cell.text) for cell in column) for column in zip(*cells, strict=True)]
    for *row, last in cells:
        padded = (
            Span(f"{cell.text:{width}}  ", cell.meaning) for cell, width in zip(row, widths, strict=False)
        )
        yield line(*padded, last, hang=_HANG)
