"""Ascending rows by key, packed: each list in whichever of three forms takes the fewest bytes.

A bitmap has bit r (little-endian) for row r and spans all rows. Otherwise a list is items of one or two
bytes, each of which moves on from row 0 by its value and names the row it has come to; the largest
value moves on without naming one, so that a wide gap takes several items.

Pairs, the unpacked form, are `key << 32 | row` as int64; keys are below 2**28.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROW_BITS", "RowLists", "common", "most_pairs", "pack", "starts_of", "unpack"]

ROW_BITS = 32
_ROW_MASK = (1 << ROW_BITS) - 1
_WIDTH_BITS, _WIDTH_MASK = 4, 15
_BITMAP = 0
_ITEMS: dict[int, np.dtype[np.unsignedinteger]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}


class RowLists(NamedTuple):
    """Lists of rows by key.

    `heads[i]` is `key << 4 | width`, ascending; the width is the bytes of an item, 0 for a bitmap. Its
    list is `data[starts[i]:starts[i + 1]]`.
    """

    heads: NDArray[np.uint32]
    starts: NDArray[np.unsignedinteger]
    data: NDArray[np.uint8]

    def keys(self) -> NDArray[np.int64]:
        """Return the keys, ascending."""
        return self.heads.astype(np.int64) >> _WIDTH_BITS

    def first(self, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the place of each of *keys*, or of the next key there is."""
        return np.searchsorted(self.heads, (keys << _WIDTH_BITS).astype(np.uint32))


def pack(pairs: NDArray[np.int64], total_rows: int) -> RowLists:
    """Return the lists of *pairs*, which ascend and do not repeat; rows are below *total_rows*."""
    keys, rows = pairs >> ROW_BITS, pairs & _ROW_MASK
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    gaps = np.diff(rows, prepend=0)
    gaps[firsts] = rows[firsts]
    bitmap_bytes = (total_rows + 7) // 8
    choices = [np.full(firsts.size, bitmap_bytes), *(_sizes(gaps, firsts, width) for width in _ITEMS)]
    widths, sizes = np.argmin(choices, axis=0), np.min(choices, axis=0)  # a choice's place is its width
    of_pair = np.repeat(widths, np.diff(firsts, append=pairs.size))
    of_byte = np.repeat(widths, sizes)
    data = np.empty(of_byte.size, np.uint8)
    data[of_byte == _BITMAP] = _bitmaps(pairs[of_pair == _BITMAP], bitmap_bytes)
    for width in _ITEMS:
        data[of_byte == width] = _items(gaps[of_pair == width], width)
    return RowLists((keys[firsts] << _WIDTH_BITS | widths).astype(np.uint32), starts_of(sizes), data)


def unpack(lists: RowLists, first: int, end: int) -> NDArray[np.int64]:
    """Return the pairs of the lists from *first* to before *end*, in no order."""
    starts = lists.starts[first : end + 1]
    data, sizes = lists.data[starts[0] : starts[-1]], np.diff(starts).astype(np.int64)
    heads = lists.heads[first:end].astype(np.int64)
    keys, widths = heads >> _WIDTH_BITS << ROW_BITS, heads & _WIDTH_MASK
    of_byte = np.repeat(widths, sizes)
    pairs = [_bitmap_pairs(data[of_byte == _BITMAP], keys[widths == _BITMAP])]
    for width, item in _ITEMS.items():
        chosen = widths == width
        items = data[of_byte == width].view(item)
        pairs.append(_item_pairs(items, keys[chosen], sizes[chosen] // width))
    return np.concatenate(pairs)


def most_pairs(lists: RowLists) -> NDArray[np.int64]:
    """Return for each list how many pairs it has at most."""
    sizes, widths = np.diff(lists.starts).astype(np.int64), lists.heads & _WIDTH_MASK
    return np.where(widths == _BITMAP, sizes * 8, sizes // np.maximum(widths, 1))


def common(lists: RowLists, keys: NDArray[np.int64], enough: int) -> NDArray[np.uint32]:
    """Return the rows that all of *keys* have, ascending; *keys* (one or more) ascend.

    Rare keys come first. As soon as no more than *enough* rows are left the other keys are not looked
    at, so there may be rows too many then.
    """
    at = lists.first(keys)
    if at[-1] == lists.heads.size or np.any(lists.heads[at] >> _WIDTH_BITS != keys):
        return np.empty(0, np.uint32)
    found = [
        (lists.data[lists.starts[i] : lists.starts[i + 1]], int(lists.heads[i]) & _WIDTH_MASK) for i in at
    ]
    bitmaps = [data for data, width in found if width == _BITMAP]
    items = sorted((data.view(_ITEMS[width]) for data, width in found if width != _BITMAP), key=len)
    if not items:
        return _set_bits(np.bitwise_and.reduce(bitmaps)).astype(np.uint32)
    rows = _named(items[0])
    for other in items[1:]:
        if rows.size <= enough:
            return rows
        rows = _shared(rows, _named(other))
    if bitmaps and rows.size > enough:
        bitmap = np.bitwise_and.reduce(bitmaps)
        rows = rows[bitmap[rows >> 3] >> (rows & 7) & 1 != 0]
    return rows


def starts_of(sizes: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Return where lists of *sizes* bytes start and where the last one ends, in as few bytes as will do."""
    starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(sizes, dtype=np.uint64)])
    return starts.astype(np.min_scalar_type(starts[-1]))


def _skip(width: int) -> int:
    """Return the value of an item that names no row."""
    return (1 << 8 * width) - 1


def _sizes(gaps: NDArray[np.int64], firsts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return how many bytes each list takes in items of *width* bytes."""
    return np.add.reduceat(gaps // _skip(width) + 1, firsts) * width if firsts.size else firsts


def _items(gaps: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Return the bytes of the items that move on by *gaps*."""
    skips, rest = np.divmod(gaps, _skip(width))
    ends = np.cumsum(skips + 1)
    items = np.full(ends[-1] if ends.size else 0, _skip(width), _ITEMS[width])
    items[ends - 1] = rest
    return items.view(np.uint8)


def _bitmaps(pairs: NDArray[np.int64], bitmap_bytes: int) -> NDArray[np.uint8]:
    """Return the bitmaps of the keys in *pairs*, one after the other."""
    which = np.cumsum(np.diff(pairs >> ROW_BITS, prepend=-1) > 0) - 1
    bits = np.zeros((which[-1] + 1 if which.size else 0, bitmap_bytes * 8), np.bool_)
    bits[which, pairs & _ROW_MASK] = True
    return np.packbits(bits, bitorder="little")


def _set_bits(bitmap: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return which bits are set, ascending."""
    return np.flatnonzero(np.unpackbits(bitmap, bitorder="little").view(np.bool_))


def _bitmap_pairs(bitmaps: NDArray[np.uint8], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs of *bitmaps*, one after the other for each of *keys*."""
    if not keys.size:
        return keys
    which, rows = np.divmod(_set_bits(bitmaps), bitmaps.size // keys.size * 8)
    return keys[which] | rows


def _names_row(items: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
    """Tell of each item whether it names a row."""
    return np.asarray(items != _skip(items.itemsize), np.bool_)


def _named(items: NDArray[np.unsignedinteger]) -> NDArray[np.uint32]:
    """Return the rows that one list's *items* name."""
    reached: NDArray[np.uint32] = np.cumsum(items, dtype=np.uint32)
    return reached[_names_row(items)]


def _item_pairs(
    items: NDArray[np.unsignedinteger], keys: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the pairs of lists of so many *items* for each of *keys*."""
    reached: NDArray[np.int64] = np.cumsum(items, dtype=np.int64)
    before = np.concatenate([np.zeros(1, np.int64), reached])[np.cumsum(counts) - counts]
    pairs: NDArray[np.int64] = reached + np.repeat(keys - before, counts)
    return pairs[_names_row(items)]


def _shared(rows: NDArray[np.uint32], others: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return what two ascending arrays share; quick where *rows* are few."""
    at = np.minimum(np.searchsorted(others, rows), others.size - 1)
    return rows[np.equal(others[at], rows)]
