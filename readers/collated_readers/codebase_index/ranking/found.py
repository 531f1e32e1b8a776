"""A place that one of the lists found."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["Found", "Source"]

Source = Literal["text", "symbol", "path"]


class Found(Struct, frozen=True, gc=False):
    """Lines of a file; `row` is the chunk's row id, None where the place is no chunk.

    `name` and what follows are a symbol's only.
    """

    source: Source
    path: str
    file: int
    line_start: int
    line_end: int
    score: float
    is_generated: bool
    row: int | None = None
    name: str | None = None
    kind: str | None = None
    is_exact: bool = False
    callers: int = 0
    callees: int = 0
    uses: int = 0
