"""Which stores can match at all: a Bloom filter of each store's terms, tested for all stores at once.

A filter is a power of two of bits, ten to twenty for each term, so that filters of one size can be
tested together: they lie side by side as columns, each word holding one bit of 64 stores. A filter
that says no is right; one that says yes is wrong for less than one term in a hundred.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from collated_readers.contract import Phrase

__all__ = ["Filters", "make_filter"]

_Words = NDArray[np.uint64 | np.uint8]

_BITS_A_TERM = 10
_SIZES = tuple(1 << log for log in range(3, 22))  # bytes; above 1.6 million terms a store says yes more often
# A term's places are the upper bits of its CRC-32 times each of these, which are odd. Filters are kept
# between runs, so a change here is a new version of `state`.
_MULTIPLIERS = np.array(
    [0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1, 0xD3A2646D], dtype=np.uint32
)
# Large filters are few, and the first of a row takes the room of all.
_WIDE, _NARROW, _WIDE_BYTES = np.dtype("<u8"), np.dtype("u1"), 1 << 13
# Two bits of the first word of all answers, which is no row's.
_NEVER, _ALWAYS = 0, 1


def make_filter(terms: Iterable[bytes]) -> bytes:
    """Return the filter of a store that holds *terms*, each given once, whatever their order."""
    hashes = np.fromiter(map(crc32, terms), dtype=np.uint32)
    wanted = _BITS_A_TERM * len(hashes)
    size = next((size for size in _SIZES if 8 * size >= wanted), _SIZES[-1])
    bits = np.zeros(8 * size, dtype=np.bool_)
    for multiplier in _MULTIPLIERS:
        bits[hashes * multiplier >> _shift(size)] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _shift(size: int) -> np.uint32:
    """Return by how much a product of 32 bits is shifted to be a bit of a filter of *size* bytes."""
    return np.uint32(33 - (8 * size).bit_length())


class _Seat(NamedTuple):
    """Where a filter lies: its size in bytes, the row among those of this size, the bit of its words."""

    size: int
    row: int
    bit: int


class _Columns:
    """The filters of one size, a column of bits each; a row is one word for each bit, of 64 or 8 filters."""

    def __init__(self, size: int) -> None:
        """Hold no filter yet; *size* in bytes."""
        self.seats: list[_Seat] = []  # that are free
        self.rows = np.zeros(0, dtype=np.int64)  # whose answers are which words
        self._size = size
        self._shift = _shift(size)
        self._words: _Words = np.zeros((1, 8 * size), dtype=_WIDE if size <= _WIDE_BYTES else _NARROW)

    @property
    def is_empty(self) -> bool:
        """Tell whether every seat is free."""
        return len(self.seats) == 8 * self._words.itemsize * len(self.rows)

    def add_row(self, answer: int) -> None:
        """Make seats for more filters; *answer* is the number of the word that their answers go to."""
        row = len(self.rows)
        if row == len(self._words):
            words: _Words = np.zeros((2 * row, 8 * self._size), dtype=self._words.dtype)
            words[:row] = self._words
            self._words = words
        self.rows = np.append(self.rows, answer)
        self.seats += [_Seat(self._size, row, bit) for bit in reversed(range(8 * self._words.itemsize))]

    def write(self, seat: _Seat, term_filter: bytes) -> None:
        """Put *term_filter* at *seat*, whatever was there."""
        words = self._words[seat.row]
        bit = words.dtype.type(1 << seat.bit)
        column = np.unpackbits(np.frombuffer(term_filter, dtype=np.uint8), bitorder="little")
        words &= ~bit
        words |= column * bit

    def test(self, products: NDArray[np.uint32], firsts: Sequence[int]) -> _Words:
        """Return a word for each row, with the bits of the filters that may hold one of the phrases.

        *products* are six for each term, uint32[terms, 6]; *firsts* says where phrases begin.
        """
        found = self._words[: len(self.rows)].take(products >> self._shift, axis=1)
        held = np.bitwise_and.reduce(found, axis=2)
        if len(firsts) < len(products):
            held = np.bitwise_and.reduceat(held, firsts, axis=1)
        some: _Words = np.bitwise_or.reduce(held, axis=1)
        return some


class Filters:
    """The filters of all stores. Each store has a slot, a number that it keeps until it is removed.

    For one thread; nothing that reads may come between the beginning and the end of a change.
    """

    def __init__(self) -> None:
        """Hold no store."""
        self._slots: dict[str, int] = {}
        self._free_slots: list[int] = []
        self._seats: list[_Seat | None] = []  # by slot
        self._answers = np.zeros(1, dtype=np.int64)  # by slot: which bit of all words is the answer
        self._columns: dict[int, _Columns] = {}
        self._words = 1
        self._free_words: list[int] = []

    def put(self, path: str, term_filter: bytes | None) -> None:
        """Take *term_filter* for the store at *path*, instead of what it had.

        None, and whatever `make_filter` cannot have made, is a store that may always match.
        """
        slot = self._slots.get(path)
        if slot is None:
            self._slots[path] = slot = self._new_slot()
        self._leave(slot, _ALWAYS)  # which is what stays where memory runs out
        if term_filter is not None and len(term_filter) in _SIZES:
            self._answers[slot] = self._settle(slot, term_filter)

    def remove(self, path: str) -> None:
        """Forget the store at *path*; its slot may become another's."""
        slot = self._slots.pop(path)
        self._leave(slot, _NEVER)
        self._free_slots.append(slot)

    def slots_of(self, paths: Sequence[str]) -> NDArray[np.int64]:
        """Return the slots of stores that are here, int64[paths]."""
        return np.fromiter(map(self._slots.__getitem__, paths), dtype=np.int64, count=len(paths))

    def may_match(self, phrases: Sequence[Phrase]) -> NDArray[np.bool_]:
        """Return which stores may hold all terms of one of *phrases*, bool[slots].

        A phrase without terms says yes for no store; slots of no store say no.
        """
        words = np.zeros(self._words, dtype=_WIDE)
        words[0] = 1 << _ALWAYS
        phrases = [phrase for phrase in phrases if phrase]
        if phrases:
            hashes = np.array([[crc32(term)] for phrase in phrases for term in phrase], dtype=np.uint32)
            products = hashes * _MULTIPLIERS
            firsts = list(accumulate(map(len, phrases[:-1]), initial=0))
            for columns in self._columns.values():
                words[columns.rows] = columns.test(products, firsts)
        bits = np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)
        return bits.take(self._answers[: len(self._seats)])

    # ----------------------------------------------------------------- slots and seats

    def _new_slot(self) -> int:
        if self._free_slots:
            return self._free_slots.pop()
        slot = len(self._seats)
        self._seats.append(None)
        if slot == len(self._answers):
            self._answers = np.concatenate([self._answers, np.zeros_like(self._answers)])
        return slot

    def _settle(self, slot: int, term_filter: bytes) -> int:
        """Return which bit answers for *slot* from now on."""
        size = len(term_filter)
        columns = self._columns.get(size)
        if columns is None:
            self._columns[size] = columns = _Columns(size)
        if not columns.seats:
            columns.add_row(self._new_word())
        self._seats[slot] = seat = columns.seats.pop()
        columns.write(seat, term_filter)
        return 64 * int(columns.rows[seat.row]) + seat.bit

    def _leave(self, slot: int, answer: int) -> None:
        seat, self._seats[slot] = self._seats[slot], None
        self._answers[slot] = answer
        if seat is None:
            return
        columns = self._columns[seat.size]
        columns.seats.append(seat)
        if columns.is_empty:
            self._free_words += columns.rows.tolist()
            del self._columns[seat.size]

    def _new_word(self) -> int:
        if self._free_words:
            return self._free_words.pop()
        self._words += 1
        return self._words - 1
