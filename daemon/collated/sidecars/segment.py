"""The postings of one or more stores as arrays, ready to be scored: a segment.

A store's place in a segment is its slot; its rows are contiguous and in id order. Terms are sorted
by (CRC-32, bytes), so that one is found by a search in an array of numbers. A term's entries are its
stores, in slot order; an entry's postings are rows, in order; a posting's instances are positions.
Segments are only ever made anew: `index_store` makes one of a store, `combining.combine` one of several.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers.postings import COLUMN_SHIFT, Postings

from .trigrams import index_texts

__all__ = [
    "Arrays",
    "Norms",
    "Piece",
    "Segment",
    "index_store",
    "narrow",
    "norms_of",
    "numbers",
    "packed",
    "ranges",
    "widened",
]

Arrays = Mapping[str, NDArray[Any]]

_K1, _B = 1.2, 0.75
_FILTERS = 8  # path filters whose rows are remembered
_SHORT_SHIFT = 15  # the same as COLUMN_SHIFT, for positions in two bytes


class Piece(Struct, frozen=True):
    """A store in a segment: whose contents it holds, and its index's own totals.

    All stores of a segment are of one format, whose reader makes terms of queries.
    """

    fingerprint: str
    format: str
    rows: int
    total_rows: int
    total_tokens: int
    weights: tuple[int, ...]


class Norms:
    """What bm25 adds to a frequency for the length of each row, and the least of it in each slot."""

    def __init__(self, rows: NDArray[np.float64], row_starts: NDArray[np.int64]) -> None:
        """Take what is added in each of *rows*."""
        self.rows = rows
        self._row_starts = row_starts
        self._least: NDArray[np.float64] | None = None

    @property
    def least(self) -> NDArray[np.float64]:
        """Return the least of each slot, 1 where there are no rows."""
        if self._least is None:
            starts = self._row_starts[:-1]
            has_rows = self._row_starts[1:] > starts
            least = np.ones(len(starts))
            least[has_rows] = np.minimum.reduceat(self.rows, starts[has_rows]) if has_rows.any() else 1.0
            self._least = least
        return self._least


class Segment:
    """Some stores' postings. Its arrays may be memory-mapped and are never written to."""

    def __init__(self, pieces: Sequence[Piece], arrays: Arrays) -> None:
        """Take *arrays* as `index_store` and `combine` name them."""
        self.pieces = tuple(pieces)
        self.arrays = arrays
        self._within: dict[tuple[str, ...], NDArray[np.bool_]] = {}
        self._other_norms: tuple[float, Norms] | None = None  # of the average last asked for
        # Records and tokens of each slot.
        self.totals = np.array(
            [[piece.total_rows for piece in pieces], [piece.total_tokens for piece in pieces]], np.int64
        )
        # What an instance in each column counts, by slot.
        widest = max((len(piece.weights) for piece in pieces), default=0)
        self.weights = np.array(
            [[*piece.weights, *[0] * (widest - len(piece.weights))] for piece in pieces], np.int64
        )
        self.row_starts = arrays["row_starts"]
        self.norms = Norms(arrays["norms"], self.row_starts)
        self.rows = arrays["rows"]
        self.freqs = arrays["freqs"]
        self.counts = arrays["counts"]
        self.positions = arrays["positions"]
        self.hashes = arrays["term_hashes"]
        self._terms = arrays["term_starts"]
        self._bytes = arrays["term_bytes"]
        self.entries = arrays["term_entries"]
        self.position_starts = arrays["term_positions"]
        self.entry_slots = arrays["entry_slots"]
        self.entry_firsts = arrays["entry_firsts"]

    @property
    def format(self) -> str:
        """Return the format of its stores."""
        return self.pieces[0].format

    @property
    def has_texts(self) -> bool:
        """Tell whether it is known which texts may hold a literal."""
        return any(name.startswith("gram_") for name in self.arrays)

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return len(self.norms.rows)

    @property
    def column_shift(self) -> int:
        """Return by how many bits a position's column is shifted."""
        return _SHORT_SHIFT if self.positions.dtype == np.uint16 else COLUMN_SHIFT

    def find(self, term: bytes) -> int:
        """Return the term's place, -1 where no store has it."""
        value = crc32(term)
        place = int(self.hashes.searchsorted(np.uint32(value)))
        while place < len(self.hashes) and self.hashes[place] == value:
            if self.term(place) == term:
                return place
            place += 1
        return -1

    def term(self, place: int) -> bytes:
        """Return the term at *place*."""
        return self._bytes[self._terms[place] : self._terms[place + 1]].tobytes()

    def terms(self) -> list[bytes]:
        """Return all terms, in order."""
        return _cut(self._bytes, self._terms)

    def id(self, row: int) -> str:
        """Return the record id of *row*."""
        starts = self.arrays["id_starts"]
        return self.arrays["id_bytes"][starts[row] : starts[row + 1]].tobytes().decode(errors="surrogatepass")

    def ids(self) -> list[bytes]:
        """Return every row's record id, as UTF-8."""
        return _cut(self.arrays["id_bytes"], self.arrays["id_starts"])

    def docs(self) -> list[str]:
        """Return every document's path; `row_docs` are places in it."""
        paths = _cut(self.arrays["doc_bytes"], self.arrays["doc_starts"])
        return [path.decode(errors="surrogatepass") for path in paths]

    def rows_within(self, entries: tuple[str, ...], matches: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Tell of each row whether its document's path *matches*, as the path filter *entries* say."""
        kept = self._within.get(entries)
        if kept is None:
            if len(self._within) >= _FILTERS:
                self._within.clear()
            docs = np.array([matches(path) for path in self.docs()], np.bool_)
            kept = self._within[entries] = docs[self.arrays["row_docs"]]
        return kept

    def slots_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the slot of each of *rows*."""
        return self.row_starts.searchsorted(rows, "right") - 1

    def norms_by(self, average: float) -> Norms:
        """Return what the norms would be if *average* were every store's mean length."""
        kept = self._other_norms
        if kept is None or kept[0] != average:
            kept = (average, Norms(norms_of(self.arrays["lengths"], average), self.row_starts))
            self._other_norms = kept
        return kept[1]


def index_store(
    fingerprint: str, format_name: str, postings: Postings, texts: Iterable[bytes] | None
) -> Segment:
    """Return a segment of one store; *texts* are its records' folded texts in row order, None for no grep."""
    totals = (postings.total_rows, postings.total_tokens)
    piece = Piece(fingerprint, format_name, len(postings.ids), *totals, postings.weights)
    hashes = np.fromiter(map(crc32, postings.terms), np.uint32, len(postings.terms))
    keys = list(zip(numbers(hashes), postings.terms, strict=True))
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    lengths = np.diff(postings.starts)[order]
    picked = ranges(postings.starts[:-1][order], lengths)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    arrays: dict[str, NDArray[Any]] = {
        "row_starts": np.array([0, len(postings.ids)], np.int64),
        "locators": postings.locators.astype(np.int64),
        "lengths": postings.lengths.astype(np.uint32),
        "norms": norms_of(postings.lengths, postings.total_tokens / max(1, postings.total_rows)),
        "id_ranks": np.arange(len(postings.ids), dtype=np.uint32),
        **packed("id", [text.encode(errors="surrogatepass") for text in postings.ids]),
        **_documents(postings.docs),
        "term_hashes": hashes[order],
        **packed("term", [postings.terms[term] for term in numbers(order)]),
        **_postings(postings, starts, picked),
        **(index_texts(texts) if texts is not None else {}),
    }
    return Segment((piece,), arrays)


def _documents(docs: Sequence[str]) -> dict[str, NDArray[Any]]:
    places = {path: place for place, path in enumerate(dict.fromkeys(docs))}
    return {
        "doc_slots": np.array([0, len(places)], np.int64),
        "row_docs": np.fromiter((places[path] for path in docs), np.uint32, len(docs)),
        **packed("doc", [path.encode(errors="surrogatepass") for path in places]),
    }


def _postings(
    postings: Postings, starts: NDArray[np.int64], picked: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    rows, positions = postings.rows[picked], postings.positions[picked]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = rows[1:] != rows[:-1]
    is_first[starts[:-1][starts[:-1] < len(rows)]] = True
    firsts = np.flatnonzero(is_first)
    weights = np.array(postings.weights, np.uint32)[positions >> COLUMN_SHIFT]
    count = len(starts) - 1
    return {
        "term_entries": np.arange(count + 1, dtype=np.int64),
        "term_positions": starts,
        "entry_slots": np.zeros(count, np.uint16),
        "entry_firsts": narrow(np.searchsorted(firsts, starts), np.uint32),
        "rows": rows[firsts],
        "freqs": narrow(np.add.reduceat(weights, firsts) if len(firsts) else weights),
        "counts": narrow(np.diff(np.append(firsts, len(rows)))),
        "positions": _short(positions),
    }


def norms_of(lengths: NDArray[np.uint32], average: float) -> NDArray[np.float64]:
    """Return bm25's k1 · (1 - b + b · D / avgdl) of each row, in FTS5's own order of operations."""
    return _K1 * ((1 - _B) + _B * lengths.astype(np.float64) / (average or 1.0))


def _short(positions: NDArray[Any]) -> NDArray[Any]:
    """Return *positions* in two bytes each where they fit."""
    columns, offsets = positions >> COLUMN_SHIFT, positions & ((1 << COLUMN_SHIFT) - 1)
    if len(positions) and (columns.max() > 1 or offsets.max() >= (1 << _SHORT_SHIFT) - 1):
        return positions
    return (columns << _SHORT_SHIFT | offsets).astype(np.uint16)


def widened(positions: NDArray[Any]) -> NDArray[Any]:
    """Return what `_short` shortened as it was."""
    wide = positions.astype(np.uint32)
    if positions.dtype != np.uint16:
        return wide
    return (wide >> _SHORT_SHIFT) << COLUMN_SHIFT | wide & ((1 << _SHORT_SHIFT) - 1)


def narrow(values: NDArray[Any], *types: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    """Return whole numbers as the first of *types* (one, two, four bytes) that holds them, else as int64."""
    largest = int(values.max()) if len(values) else 0
    for each in types or (np.uint8, np.uint16, np.uint32):
        if largest <= np.iinfo(each).max:
            return values.astype(each)
    return values.astype(np.int64)


def packed(name: str, values: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    """Return strings as `NAME_bytes` and `NAME_starts`, one start more than there are strings."""
    starts = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=starts[1:])
    return {
        f"{name}_starts": narrow(starts, np.uint32),
        f"{name}_bytes": np.frombuffer(b"".join(values), np.uint8),
    }


def _cut(data: NDArray[np.uint8], starts: NDArray[Any]) -> list[bytes]:
    whole, edges = data.tobytes(), starts.tolist()
    return [whole[first:last] for first, last in pairwise(edges)]


def numbers(values: NDArray[Any]) -> list[int]:
    """Return whole numbers as Python's own."""
    plain: list[int] = values.tolist()
    return plain


def ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices of all ranges of *lengths* from *starts*, one after the other."""
    ends: NDArray[np.int64] = lengths.cumsum(dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    shifts: NDArray[np.int64] = starts.astype(np.int64) - (ends - lengths)
    return shifts.repeat(lengths) + np.arange(total)
