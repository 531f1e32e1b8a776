"""What a store's full-text index says, as arrays: where its terms stand, how long its records are.

A reader gives these for all terms, to be kept beside the store's answers (daemon/DESIGN.md), or for
the terms of one query. Import this only where stores are indexed: it brings in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

__all__ = ["COLUMN_SHIFT", "Postings"]

COLUMN_SHIFT = 24
"""A position is `column << 24 | offset`: searchable columns from 0, tokens of a column from 0.

No offset is 2^24 - 1, so that the last token of one column is never followed by the first of the next.
"""


class Postings(Struct, frozen=True, eq=False):
    """The instances of terms in one store's records; row r is the record `ids[r]`.

    `ids` are ascending by UTF-8 bytes, without repetition; all records of the store where all terms
    were asked for, else those in which a term stands. `docs` holds each row's document path,
    `locators` its `Ranked.row`, `lengths` its tokens in all columns. `total_rows` and `total_tokens`
    are those of the whole index, as its own bm25 takes them.

    `terms` are ascending, without repetition, none that stands nowhere. The instances of `terms[t]` are
    `starts[t]:starts[t + 1]` of `rows` and `positions`, ascending by (row, position). An instance in
    column c weighs `weights[c]` in bm25, whose k1 is 1.2 and b 0.75.
    """

    ids: Sequence[str]
    docs: Sequence[str]
    locators: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    total_rows: int
    total_tokens: int
    weights: tuple[int, ...]
    terms: Sequence[bytes]
    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    positions: NDArray[np.uint32]
