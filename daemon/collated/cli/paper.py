"""Lines on standard output: plain text for programs, fitted and coloured for a person's terminal."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TextIO

from .line import Line, Meaning, plain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show"]

_STYLES: Mapping[Meaning, str] = {
    "match": "bold",
    "found": "bold",
    "store": "cyan",
    "place": "bold cyan",
    "heading": "green",
    "aside": "dim",
    "good": "green",
    "bad": "red",
}
_NARROWEST = 10


def show(lines: Iterable[Line], stream: TextIO, environ: Mapping[str, str]) -> None:
    """Write *lines* to *stream*; rich is imported only when it is a terminal."""
    if not stream.isatty():
        stream.writelines(f"{plain(line)}\n" for line in lines)
        return
    from rich.console import Console

    is_coloured = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    console = Console(file=stream, highlight=False, markup=False, emoji=False, no_color=not is_coloured)
    for line in lines:
        _print(console, line, is_coloured=is_coloured)


def _print(console: "Console", line: Line, *, is_coloured: bool) -> None:
    from rich.text import Text

    if is_coloured:
        text = Text.assemble(*((span.text, _STYLES.get(span.meaning, "")) for span in line.spans))
    else:
        text = Text(plain(Line(line.spans)))
    width = max(console.width - line.indent - line.hang, _NARROWEST)
    rows = [text] if line.is_verbatim else text.wrap(console, width)
    for number, row in enumerate(rows):
        indent = line.indent + (line.hang if number else 0)
        console.print(Text(" " * indent) + row, soft_wrap=True)
