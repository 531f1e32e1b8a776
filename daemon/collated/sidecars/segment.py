"""The postings of one or more stores as arrays, ready to be scored: a segment.

A store's place in a segment is its slot; its rows are contiguous and in id order. Segments are only
ever made anew: `index_store` makes one of a store, `combine` one of several.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from numpy.typing import NDArray

from collated_readers.postings import Postings

__all__ = ["Arrays", "Piece", "Segment", "combine", "index_store"]

Arrays = Mapping[str, NDArray[Any]]


class Piece(Struct, frozen=True):
    """A store in a segment: whose contents it holds, and its index's own totals."""

    fingerprint: str
    rows: int
    total_rows: int
    total_tokens: int
    weights: tuple[int, ...]


class Segment:
    """Some stores' postings. Its arrays may be memory-mapped and are never written to."""

    def __init__(self, pieces: Sequence[Piece], arrays: Arrays) -> None:
        """Take *arrays* as `arrays` gave them; their names and types are this module's own business."""
        self.pieces = tuple(pieces)
        self.arrays = arrays


def index_store(fingerprint: str, postings: Postings, texts: Iterable[bytes]) -> Segment:
    """Return a segment of one store; *texts* are its records' folded texts, in row order."""
    raise NotImplementedError


def combine(parts: Sequence[tuple[Segment, Sequence[int]]]) -> Segment:
    """Return one segment of the given slots of each of *parts*, in that order."""
    raise NotImplementedError
