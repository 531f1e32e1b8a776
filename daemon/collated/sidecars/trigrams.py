"""Which of a segment's records may hold a literal: the grams of each record's folded text.

A gram is a trigram, any three bytes, or a joint, two bytes on each side of a space, hashed to one of
2,048. Joints tell a text that holds "the con" from those that hold the same common trigrams apart. For
each gram there is the list of the rows that hold it, packed as `row_lists` says: about one byte a row.

Measured: 54 % of the text over real documents (34,208 records, 27 MB; 45 % without joints), 53 MB over
1,000 generated stores (200,000 records, 102 MB; 79 million pairs of gram and row). Text is folded as
the reader's `texts` and `needles` fold it; here it is only bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .row_lists import ROW_BITS, RowLists, common, most_pairs, pack, starts_of, unpack

__all__ = ["candidates", "combine_grams", "index_texts"]

_ENOUGH = 16
"""To look at so few records takes no longer than to read more lists (some 30 µs a record)."""

_BATCH_BYTES = 1 << 21
"""How much text is indexed at a time; a byte takes some 60 meanwhile."""

_CHUNK_PAIRS = 1 << 21
"""How many pairs are unpacked at a time, or one gram's if that has more; one takes some 50 bytes."""

_FIRST_JOINT, _JOINT_BITS = 1 << 24, 11
"""Keys of joints follow on those of trigrams."""

_HASH_FACTOR = 1_327_217_885  # 2**31 by the golden ratio: multiplicative hashing


class _Grams(NamedTuple):
    """The keys of one kind in a text, where each begins, and how many bytes it is made of."""

    keys: NDArray[np.int64]
    begins: NDArray[np.intp]
    size: int


_Part = tuple[RowLists, NDArray[np.int64]]
"""Lists, and what becomes of their rows: r turns into `[r]`, rows beyond into the last; below 0 they go."""


def index_texts(texts: Iterable[bytes]) -> dict[str, NDArray[Any]]:  # arrays of several types
    """Return the index of one store's records; row r is that of the r-th text."""
    parts: list[_Part] = []
    end = 0
    for rows, pieces in _batches(texts):
        first, end = rows[0], rows[-1] + 1
        lists = pack(_pairs([row - first for row in rows], pieces), end - first)
        parts.append((lists, _becoming([(0, end - first)], first)))
    return _arrays(parts[0][0] if len(parts) == 1 else _merged(parts, end))


def combine_grams(
    parts: Sequence[tuple[Mapping[str, NDArray[Any]], Sequence[tuple[int, int]]]],  # arrays of several types
) -> dict[str, NDArray[Any]]:
    """Return the index of the kept rows of several indexes, numbered anew in the order given.

    A part's kept rows are ranges (first, end) that do not overlap, those of one slot as a rule.
    """
    taken: list[_Part] = []
    total_rows = 0
    for arrays, ranges in parts:
        taken.append((_lists(arrays), _becoming(ranges, total_rows)))
        total_rows += sum(end - first for first, end in ranges)
    return _arrays(_merged(taken, total_rows))


def candidates(
    arrays: Mapping[str, NDArray[Any]],  # arrays of several types
    needles: Sequence[bytes],
    *,
    enough: int = _ENOUGH,
) -> NDArray[np.uint32] | None:
    """Return, ascending, the rows whose text may hold all *needles*; none that does is left out.

    Returns None if no needle has three bytes, which says nothing of any row. A row that is returned holds
    all grams of all needles, but for when no more than *enough* are returned.
    """
    keys = {key for needle in needles for grams in _grams(needle) for key in grams.keys.tolist()}
    return common(_lists(arrays), np.array(sorted(keys), np.int64), enough) if keys else None


def _lists(arrays: Mapping[str, NDArray[Any]]) -> RowLists:  # arrays of several types
    return RowLists(arrays["gram_heads"], arrays["gram_starts"], arrays["gram_data"])


def _arrays(lists: RowLists) -> dict[str, NDArray[Any]]:  # arrays of several types
    return {"gram_heads": lists.heads, "gram_starts": lists.starts, "gram_data": lists.data}


def _grams(text: bytes) -> tuple[_Grams, _Grams]:
    """Return the trigrams and the joints of *text*."""
    octets = np.frombuffer(text, np.uint8).astype(np.int64)
    trigrams = octets[:-2] << 16 | octets[1:-1] << 8 | octets[2:]
    begins = np.flatnonzero(octets[2:-2] == ord(" "))
    around = octets[begins] << 24 | octets[begins + 1] << 16 | octets[begins + 3] << 8 | octets[begins + 4]
    joints = _FIRST_JOINT + (around * _HASH_FACTOR >> 32 - _JOINT_BITS & (1 << _JOINT_BITS) - 1)
    return _Grams(trigrams, np.arange(trigrams.size), 3), _Grams(joints, begins, 5)


def _batches(texts: Iterable[bytes]) -> Iterator[tuple[list[int], list[bytes]]]:
    """Yield texts with the row of each, so many bytes at a time; a text that is longer comes in pieces."""
    rows: list[int] = []
    pieces: list[bytes] = []
    size = 0
    for row, text in enumerate(texts):
        for start in range(0, max(len(text) - 4, 1), _BATCH_BYTES):
            rows.append(row)
            pieces.append(text[start : start + _BATCH_BYTES + 4])  # so that no trigram or joint is cut
            size += len(pieces[-1]) + 1
            if size > _BATCH_BYTES:
                yield rows, pieces
                rows, pieces, size = [], [], 0
    if rows:
        yield rows, pieces


def _pairs(rows: Sequence[int], pieces: Sequence[bytes]) -> NDArray[np.int64]:
    """Return the pairs of *pieces* of text with the row of each, ascending and without repetition."""
    of_byte = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
    row_of_byte = np.array(rows)[of_byte]
    pairs: list[NDArray[np.int64]] = []
    for keys, begins, size in _grams(b"".join(pieces)):
        is_whole = of_byte[begins] == of_byte[begins + size - 1]  # not across the end of a piece
        pairs.append((keys << ROW_BITS | row_of_byte[begins])[is_whole])
    return _distinct(np.concatenate(pairs))


def _distinct(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return *pairs* ascending and each once; they are sorted in place."""
    pairs.sort(kind="stable")  # merges runs that ascend already: a seventh of the time for unpacked lists
    return pairs[np.diff(pairs, prepend=-1) > 0]


def _becoming(ranges: Sequence[tuple[int, int]], first: int) -> NDArray[np.int64]:
    """Return what becomes of rows of which *ranges* are kept, in their order, from row *first* on."""
    becomes = np.full(max((end for _, end in ranges), default=0) + 1, -1, np.int64)
    for start, end in ranges:
        becomes[start:end] = np.arange(first, first + end - start)
        first += end - start
    return becomes


def _merged(parts: Sequence[_Part], total_rows: int) -> RowLists:
    """Return the lists of all *parts* with their new rows; a row that two name for a key is there once."""
    packed = [pack(pairs, total_rows) for pairs in _by_keys(parts)]
    return RowLists(
        np.concatenate([np.empty(0, np.uint32), *(lists.heads for lists in packed)]),
        starts_of(np.concatenate([np.empty(0, np.uint32), *(np.diff(lists.starts) for lists in packed)])),
        np.concatenate([np.empty(0, np.uint8), *(lists.data for lists in packed)]),
    )


def _by_keys(parts: Sequence[_Part]) -> Iterator[NDArray[np.int64]]:
    """Yield the pairs of all *parts* with their new rows, some keys at a time, ascending."""
    lows = _lows([lists for lists, _ in parts])
    edges = [[*lists.first(lows).tolist(), lists.heads.size] for lists, _ in parts]
    for chunk in range(lows.size):
        pairs = [
            _taken(unpack(lists, edge[chunk], edge[chunk + 1]), becomes)
            for (lists, becomes), edge in zip(parts, edges, strict=True)
        ]
        yield _distinct(np.concatenate(pairs))


def _lows(of: Sequence[RowLists]) -> NDArray[np.int64]:
    """Return the keys with which the chunks begin, none if there are no keys."""
    step = _CHUNK_PAIRS // max(len(of), 1) + 1
    edges = [np.empty(0, np.int64)]
    edges += [lists.keys()[np.diff(_pairs_before(lists)[:-1] // step, prepend=-1) > 0] for lists in of]
    lows = np.unique(np.concatenate(edges))
    before = np.zeros(lows.size, np.int64)
    for lists in of:
        before += _pairs_before(lists)[lists.first(lows)]
    return lows[np.diff(before // _CHUNK_PAIRS, prepend=-1) > 0]


def _pairs_before(lists: RowLists) -> NDArray[np.int64]:
    """Return how many pairs there are at most before each list, and in all."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(most_pairs(lists))])


def _taken(pairs: NDArray[np.int64], becomes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the *pairs* that stay, with their new rows."""
    rows = becomes.take(pairs & (1 << ROW_BITS) - 1, mode="clip")
    return (pairs >> ROW_BITS << ROW_BITS | rows)[rows >= 0]
