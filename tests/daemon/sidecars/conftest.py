"""What the tests of the sidecars share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from collated.sidecars.segment import Segment, index_store
from collated_readers.postings import Postings

MakeSegment = Callable[..., Segment]


def _of_one_word(fingerprint: str, word: bytes = b"whale", rows: int = 2) -> Segment:
    instances = np.arange(rows)
    postings = Postings(
        ids=[f"a.md#{row}" for row in range(rows)],
        docs=["a.md"] * rows,
        locators=instances + 1,
        lengths=np.ones(rows, np.uint32),
        total_rows=rows,
        total_tokens=rows,
        weights=(10, 1),
        terms=[word],
        starts=np.array([0, rows]),
        rows=instances.astype(np.uint32),
        positions=np.zeros(rows, np.uint32),
    )
    return index_store(fingerprint, "contextpull", postings, [word] * rows)


@pytest.fixture(scope="session")
def make_segment() -> MakeSegment:
    """`make_segment("fingerprint", b"word", rows=2)` makes a segment of one store that says one word."""
    return _of_one_word
