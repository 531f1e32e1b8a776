"""The full-text sidecar: `postings.bin`, asked for the documents that best match a query's tokens.

Header, documents, their ids, the dictionary, its terms, the postings: in this order, by absolute offsets
(layout §6). Every offset and count is held against the file before it is followed.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collated_readers.contextful.model import IndexEntry
from collated_readers.contextful.retrieving.lexical import K1, B, idf_of

from .files import Unusable
from .terms import forms_of

__all__ = ["LARGEST_POSTINGS", "Postings"]

LARGEST_POSTINGS = 256 * 1024 * 1024
_LARGEST_TERM = 64 * 1024 * 1024  # bytes of the postings of one term

_MAGIC = b"CFPOST01"
_HEADER = struct.Struct("<8sIIQ6Q")
_DOCUMENT = np.dtype([("start", "<u8"), ("bytes", "<u4"), ("terms", "<u4")])
_TERM = struct.Struct("<QIIQQ")

_Docs = NDArray[np.int64]
_Scores = NDArray[np.float64]


class _Occurrences:
    """Where one term stands: *docs* ascending, *counts*, and the *starts* of positions in *words*."""

    def __init__(self, docs: _Docs, counts: _Docs, starts: _Docs, words: NDArray[np.uint32]) -> None:
        self.docs, self.counts, self.starts, self.words = docs, counts, starts, words

    def keys(self) -> _Docs:
        """Return all occurrences as `doc << 32 | position`, ascending where the file is sound."""
        total = int(self.counts.sum())
        ends = np.cumsum(self.counts)
        places = np.arange(total) - np.repeat(ends - self.counts, self.counts)
        places += np.repeat(self.starts, self.counts)
        return (np.repeat(self.docs, self.counts) << 32) | self.words[places].astype(np.int64)


class Postings:
    """An opened `postings.bin`; good for as long as it is kept, whatever becomes of the file's name."""

    def __init__(self, data: mmap.mmap | bytes, entry: IndexEntry) -> None:
        """Check the outline of *data*.

        Raises:
            Unusable: it is not what *entry* says.
        """
        self._data = data
        self._tokenizer = entry.tokenizer
        if len(data) < _HEADER.size:
            raise Unusable("shorter than its header")
        magic, self._count, self._terms, total, *offsets = _HEADER.unpack_from(data)
        docs, self._ids, self._dict, self._names, self._lists, self._end = offsets
        sound = (
            magic == _MAGIC
            and docs == _HEADER.size
            and self._ids == docs + self._count * _DOCUMENT.itemsize
            and self._ids <= self._dict
            and self._names == self._dict + self._terms * _TERM.size
            and self._names <= self._lists <= self._end == len(data)
            and self._terms == entry.term_count
            and self._count <= entry.row_count
        )
        if not sound:
            raise Unusable("an outline that does not fit")
        self._documents = np.frombuffer(data, _DOCUMENT, self._count, docs)
        self._average = total / self._count if self._count else 0.0

    def ranking(self, tokens: Sequence[str]) -> _Docs:
        """Return the documents that hold any of *tokens*, best first by BM25 over all documents.

        Raises:
            Unusable: what is followed leads astray.
        """
        found = [self._token(token) for token in tokens]
        docs = np.concatenate([docs for docs, _ in found]) if found else np.empty(0, np.int64)
        if not len(docs):
            return docs
        scores = np.concatenate([self._scores(docs, counts) for docs, counts in found])
        distinct, places = np.unique(docs, return_inverse=True)
        sums = np.bincount(places, scores)
        best: _Docs = distinct[np.argsort(-sums, kind="stable")]
        return best

    def ids(self, docs: Sequence[int]) -> list[str]:
        """Return the identifiers of *docs*.

        Raises:
            Unusable: one lies outside the file's, or is no text.
        """
        return [self._id(int(doc)) for doc in docs]

    def _id(self, doc: int) -> str:
        row: Any = self._documents[doc]
        start, size = int(row["start"]), int(row["bytes"])
        return _text(self._data, self._ids, self._dict, start, size)

    def _token(self, token: str) -> tuple[_Docs, _Docs]:
        """Return the documents in which *token* stands, ascending, and how often."""
        places = forms_of(token, self._tokenizer)
        if len(places) == 1:
            return _summed([found for form in places[0] if (found := self._occurrences(form))])
        terms = [self._occurrences(forms[0]) for forms in places]
        phrase = [found for found in terms if found is not None]
        return _following(phrase) if phrase and len(phrase) == len(places) else _nothing()

    def _scores(self, docs: _Docs, counts: _Docs) -> _Scores:
        if self._average <= 0:
            raise Unusable("documents without terms")
        lengths = self._documents["terms"][docs] / self._average
        damping = K1 * (1 - B + B * lengths)
        scores: _Scores = idf_of(self._count, len(docs)) * counts * (K1 + 1) / (counts + damping)
        return scores

    # ------------------------------------------------------------------------ dictionary

    def _occurrences(self, term: str) -> _Occurrences | None:
        wanted = term.encode()
        low, high = 0, self._terms
        while low < high:
            middle = (low + high) // 2
            if self._row(middle)[0] < wanted:
                low = middle + 1
            else:
                high = middle
        if low == self._terms:
            return None
        name, documents, start, size = self._row(low)
        return self._list(documents, start, size) if name == wanted else None

    def _row(self, place: int) -> tuple[bytes, int, int, int]:
        start, size, documents, at, length = _TERM.unpack_from(self._data, self._dict + place * _TERM.size)
        return _part(self._data, self._names, self._lists, start, size), documents, at, length

    def _list(self, documents: int, start: int, size: int) -> _Occurrences:
        if size % 4 or size > _LARGEST_TERM or self._lists + start + size > self._end or not documents:
            raise Unusable("postings outside their place")
        words = np.frombuffer(self._data, "<u4", size // 4, self._lists + start)
        heads = _heads(words, documents)
        docs, counts = words[heads].astype(np.int64), words[heads + 1].astype(np.int64)
        if docs[-1] >= self._count or np.any(np.diff(docs) <= 0):
            raise Unusable("documents that are not there, or in no order")
        return _Occurrences(docs, counts, heads + 2, words)


def _heads(words: NDArray[np.uint32], documents: int) -> _Docs:
    """Return where each document's postings begin: its number, how often, and as many positions."""
    if len(words) == 3 * documents and bool(np.all(words[1::3] == 1)):
        return np.arange(0, len(words), 3)
    if len(words) < 3 * documents:
        raise Unusable("postings that are too short")
    heads, at, last = array("q"), 0, len(words) - 2
    numbers = array("I", words.astype(np.uint32).tobytes())  # single numbers are far faster to read from it
    for _ in range(documents):
        if at > last or not numbers[at + 1]:
            raise Unusable("postings that end too early")
        heads.append(at)
        at += 2 + numbers[at + 1]
    if at != len(words):
        raise Unusable("postings that do not fill their place")
    return np.frombuffer(heads, np.int64)


def _summed(found: Sequence[_Occurrences]) -> tuple[_Docs, _Docs]:
    if not found:
        return _nothing()
    docs, places = np.unique(np.concatenate([one.docs for one in found]), return_inverse=True)
    counts = np.bincount(places, np.concatenate([one.counts for one in found]))
    return docs, counts.astype(np.int64)


def _following(terms: Sequence[_Occurrences]) -> tuple[_Docs, _Docs]:
    """Return the documents in which *terms* stand at consecutive positions, and how often."""
    keys = np.unique(terms[0].keys())
    for offset, term in enumerate(terms[1:], start=1):
        keys = keys[np.isin(keys + offset, term.keys())]
    docs, counts = np.unique(keys >> 32, return_counts=True)
    return docs, counts.astype(np.int64)


def _nothing() -> tuple[_Docs, _Docs]:
    return np.empty(0, np.int64), np.empty(0, np.int64)


def _text(data: mmap.mmap | bytes, begin: int, end: int, start: int, size: int) -> str:
    try:
        return _part(data, begin, end, start, size).decode()
    except UnicodeDecodeError as error:
        raise Unusable("an identifier that is no text") from error


def _part(data: mmap.mmap | bytes, begin: int, end: int, start: int, size: int) -> bytes:
    """Return *size* bytes from *start* of what lies between *begin* and *end*."""
    if begin + start + size > end:
        raise Unusable("a place outside its part")
    return data[begin + start : begin + start + size]
