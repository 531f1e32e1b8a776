"""Columns of values as the lines of a table with a head, within the width of a terminal. Pure.

All text comes out harmless. Without a width, for programs, nothing is cut.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from collated.escape import visible

from .line import Line, Span, line

__all__ = ["columns_of", "cut", "grid", "shown"]

_NULL = "NULL"
_GAP = "  "
_LEAST = 8  # columns of a terminal in which a value still says something
_WIDEST = 60  # to which values are aligned where nothing is cut; one that is wider stands out
_LOOKED = 2_000  # characters of a value that its width is told from; no terminal is as wide
_INDENT = 2
# The wire has integers of more than 32 bits and long decimals as text, so that they stay exact.
_NUMBER = re.compile(r"-?[0-9]{1,99}(?:\.[0-9]{1,99})?|NaN|-?inf", re.ASCII)


class _Column(NamedTuple):
    head: Span
    cells: Sequence[Span]
    is_right: bool

    @property
    def width(self) -> int:
        return max(_width_of(cell.text) for cell in (self.head, *self.cells))


def grid(heads: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None) -> Iterator[Line]:
    """Return *rows* of JSON values below their *heads*, numbers to the right.

    Where so many columns do not fit into *width*, each row becomes a list of its values instead.
    """
    columns = [_column(head, [row[at] for row in rows], width) for at, head in enumerate(heads)]
    natural = [column.width for column in columns]
    if width is None:
        return _table(columns, [min(each, _WIDEST) for each in natural], is_cut=False)
    widths = _fitted(natural, width - len(_GAP) * (len(columns) - 1))
    if any(room < min(needed, _LEAST) for room, needed in zip(widths, natural, strict=True)):
        return _records(columns, width)
    return _table(columns, widths, is_cut=True)


def _column(head: str, values: Sequence[Any], width: int | None) -> _Column:
    there = [value for value in values if value is not None]
    is_right = bool(there) and all(map(_is_number, there))
    cells = [shown(value, width) for value in values]
    return _Column(Span(_short(head, width), "heading"), cells, is_right)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Any, width: int | None = None) -> Span:
    """Return a JSON value on one line, of which no more is looked at than *width* columns can show."""
    if value is None:
        return Span(_NULL, "aside")
    if not isinstance(value, str):
        return Span(_short(msgspec.json.encode(value).decode(), width))
    return Span(f'"{value}"' if value == _NULL else _short(value, width))


def _short(text: str, width: int | None) -> str:
    if width is None or len(text) <= width:
        return visible(text)
    return visible(text[:width]) + "…"


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Return widths that fill *room* at most: narrow columns have theirs, wide ones share what is left."""
    widths = [0] * len(natural)
    for done, at in enumerate(sorted(range(len(natural)), key=natural.__getitem__)):
        widths[at] = max(0, min(natural[at], room // (len(natural) - done)))
        room -= widths[at]
    return widths


def _table(columns: Sequence[_Column], widths: Sequence[int], *, is_cut: bool) -> Iterator[Line]:
    ruled = [Span("─" * width, "aside") for width in widths]
    below = zip(*(column.cells for column in columns), strict=True)
    for cells in ([column.head for column in columns], ruled, *below):
        spans: list[Span] = []
        for cell, width, column in zip(cells, widths, columns, strict=True):
            spans += (_placed(cell, width, is_right=column.is_right, is_cut=is_cut), Span(_GAP))
        yield Line(_trimmed(spans), is_verbatim=True)


def _placed(cell: Span, width: int, *, is_right: bool, is_cut: bool) -> Span:
    text = cut(cell.text, width) if is_cut else cell.text
    blank = " " * (width - _width_of(text))
    return cell._replace(text=blank + text if is_right else text + blank)


def _trimmed(spans: list[Span]) -> tuple[Span, ...]:
    """Return *spans* without the blanks at the end, which would make a narrow terminal begin a new row."""
    while spans and not spans[-1].text.strip(" "):
        spans.pop()
    if spans:
        spans[-1] = spans[-1]._replace(text=spans[-1].text.rstrip(" "))
    return tuple(spans)


def _records(columns: Sequence[_Column], width: int) -> Iterator[Line]:
    room = max(1, width - _INDENT)
    label = min(max(columns_of(column.head.text) for column in columns), room // 3)
    for number in range(len(columns[0].cells)):
        yield line(Span(f"row {number + 1}", "aside"))
        for head, cells, _ in columns:
            name = _placed(head, label, is_right=False, is_cut=True)
            value = cells[number]._replace(text=cut(cells[number].text, max(1, room - label - len(_GAP))))
            yield Line((name, Span(_GAP), value), indent=_INDENT, is_verbatim=True)


def _width_of(text: str) -> int:
    """Return how wide a value is, as far as that counts: of a text of megabytes nobody aligns the end."""
    return columns_of(text[:_LOOKED])


def columns_of(text: str) -> int:
    """Return how many columns of a terminal *text* takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 0 if unicodedata.category(character) in ("Mn", "Me", "Cf") else 1


def cut(text: str, width: int) -> str:
    """Return *text* within so many columns; where that is not all of it, `…` stands at its end."""
    if columns_of(text) <= width:
        return text
    left = width - 1
    for at, character in enumerate(text):
        left -= _width(character)
        if left < 0:
            return f"{text[:at]}…" if width > 0 else ""
    return text
