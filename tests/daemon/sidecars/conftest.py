"""What the tests of the sidecars share: stores of plain Python, and real ones beside each other."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from collated.merge import dedupe
from collated.sidecars.combining import combine
from collated.sidecars.corpus import Question
from collated.sidecars.segment import Segment, index_store, widened
from collated_readers import Query, Ranked
from collated_readers.contextpull import ContextPull
from collated_readers.postings import COLUMN_SHIFT, Postings

if TYPE_CHECKING:
    from tests.conftest import MakeStore

MakeSegment = Callable[..., Segment]
Columns = Sequence[Mapping[int, bytes]]


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


# --------------------------------------------------------------------------- combined at random


def _grouped(data: st.DataObject, segments: Sequence[Segment]) -> list[Segment]:
    parts = list(data.draw(st.permutations(segments)))
    for _ in range(data.draw(st.integers(0, 3))):
        first = data.draw(st.integers(0, len(parts) - 1))
        last = data.draw(st.integers(first, len(parts) - 1)) + 1
        parts[first:last] = [combine([(part, range(len(part.pieces))) for part in parts[first:last]])]
    return parts


Grouped = Callable[[st.DataObject, Sequence[Segment]], list[Segment]]


@pytest.fixture(scope="session")
def grouped() -> Grouped:
    """`grouped(data, segments)` shuffles segments and combines some of them, and some of those again."""
    return _grouped


# --------------------------------------------------------------------------- stores of plain Python


class Plain(NamedTuple):
    """A store: each record's document, and the token at each offset of its columns, by the record's id."""

    fingerprint: str
    records: Mapping[str, tuple[str, Columns]]
    weights: tuple[int, ...] = (2, 1)

    @property
    def ids(self) -> list[str]:
        return sorted(self.records, key=_utf8)

    @property
    def lengths(self) -> list[int]:
        """The tokens of each record; where an offset is left out there is one that nobody asks for."""
        every = [self.records[each][1] for each in self.ids]
        return [sum(max(column, default=-1) + 1 for column in columns) for columns in every]

    def instances(self) -> list[tuple[bytes, int, int]]:
        """Return term, row and position of each, ascending."""
        return sorted(
            (token, row, column << COLUMN_SHIFT | offset)
            for row, each in enumerate(self.ids)
            for column, tokens in enumerate(self.records[each][1])
            for offset, token in tokens.items()
        )

    def postings(self) -> Postings:
        """Return what a reader would."""
        ids, lengths, instances = self.ids, self.lengths, self.instances()
        sizes = Counter(term for term, _, _ in instances)
        return Postings(
            ids=ids,
            docs=[self.records[each][0] for each in ids],
            locators=np.arange(len(ids)) * 7 + 3,
            lengths=np.array(lengths, np.uint32),
            total_rows=len(ids),
            total_tokens=sum(lengths),
            weights=self.weights,
            terms=list(sizes),
            starts=np.cumsum([0, *sizes.values()]).astype(np.int64),
            rows=np.array([row for _, row, _ in instances], np.uint32),
            positions=np.array([position for _, _, position in instances], np.uint32),
        )

    def segment(self, *, has_texts: bool = False) -> Segment:
        """Index the store; a record's text, for grep, is its id."""
        texts = [_utf8(each) for each in self.ids] if has_texts else None
        return index_store(self.fingerprint, "plain", self.postings(), texts)


class Told(NamedTuple):
    """What a segment says: its stores; records in order; terms in order, each with its postings."""

    stores: list[tuple[str, int, int, int, tuple[int, ...]]]
    rows: list[tuple[int, str, str, int, int, float]]
    terms: list[tuple[bytes, list[tuple[int, int, int, list[int]]]]]
    ranks: list[int]


class Model:
    """Stores of plain Python, what segments of them must say, and what they do say."""

    Store = Plain

    # The first two have one CRC-32, and so have the next two. None of the last is in a store.
    TERMS = (b"plumless", b"buckeroo", b"codding", b"gnu", b"a", "\u65e5\u672c".encode(), b"\xff\x00")

    _OFFSETS = st.integers(0, 9) | st.integers((1 << 15) - 3, (1 << 15) + 2)
    _COLUMNS = st.lists(st.dictionaries(_OFFSETS, st.sampled_from(TERMS), max_size=4), min_size=1, max_size=3)
    _IDS = st.text(st.sampled_from("ab#1é\ud800\U0001f40b"), min_size=1, max_size=3)
    _DOCS = st.sampled_from(["a.md", "b.md", "ü.md", "dir/\udcff.md"])
    _RECORDS = st.dictionaries(_IDS, st.tuples(_DOCS, _COLUMNS), max_size=4)
    _WEIGHTS = st.sampled_from([(2, 1, 1), (300, 7, 40_000), (1, 255, 256)])

    # Columns whose tokens follow each other, the last of them just before or behind what two bytes hold.
    _RUN = st.tuples(st.lists(st.sampled_from(TERMS[:3]), max_size=6), st.sampled_from([None, 32766, 32768]))
    _RUNS = st.lists(_RUN.map(lambda run: _run(*run)), min_size=1, max_size=3)
    _FULL = st.dictionaries(_IDS, st.tuples(_DOCS, _RUNS), max_size=4)
    texts = st.lists(st.tuples(_FULL, _WEIGHTS), min_size=1, max_size=3).map(
        lambda drawn: [Plain(f"f{number}", *each) for number, each in enumerate(drawn)]
    )

    # Up to four stores with up to three columns, some of them with positions of four bytes.
    stores = st.lists(st.tuples(_RECORDS, _WEIGHTS), min_size=1, max_size=4).map(
        lambda drawn: [Plain(f"f{number}", *each) for number, each in enumerate(drawn)]
    )

    def expected(self, stores: Sequence[Plain]) -> Told:
        """Return what a segment of *stores*, in that order, has to say."""
        rows: list[tuple[int, str, str, int, int, float]] = []
        found: dict[bytes, dict[tuple[int, int], list[int]]] = {}
        for slot, store in enumerate(stores):
            first = len(rows)
            rows += [(slot, *row) for row in _rows(store)]
            for term, row, position in store.instances():
                found.setdefault(term, {}).setdefault((first + row, slot), []).append(position)
        terms = [
            (term, [(*key, _frequency(stores[key[1]], places), places) for key, places in each.items()])
            for term, each in sorted(found.items(), key=lambda item: (crc32(item[0]), item[0]))
        ]
        ids = [_utf8(row[1]) for row in rows]
        return Told(
            [(each.fingerprint, *_totals(each), each.weights) for each in stores],
            rows,
            terms,
            [sorted(set(ids)).index(each) for each in ids],
        )

    def told(self, segment: Segment) -> Told:
        """Return what *segment* says."""
        arrays, docs = segment.arrays, segment.docs()
        slots: list[int] = segment.slots_of(np.arange(segment.size)).tolist()
        rows = [
            (
                slots[row],
                segment.id(row),
                docs[int(arrays["row_docs"][row])],
                int(arrays["locators"][row]),
                int(arrays["lengths"][row]),
                float(segment.norms.rows[row]),
            )
            for row in range(segment.size)
        ]
        assert [_utf8(row[1]) for row in rows] == segment.ids()
        return Told(
            [
                (piece.fingerprint, piece.rows, piece.total_rows, piece.total_tokens, piece.weights)
                for piece in segment.pieces
            ],
            rows,
            [(term, list(_postings(segment, place))) for place, term in enumerate(segment.terms())],
            arrays["id_ranks"].tolist(),
        )


def _run(tokens: Sequence[bytes], last: int | None) -> dict[int, bytes]:
    first = 0 if last is None else last + 1 - len(tokens)
    return dict(enumerate(tokens, first))


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _totals(store: Plain) -> tuple[int, int, int]:
    return (len(store.records), len(store.records), sum(store.lengths))


def _rows(store: Plain) -> Iterator[tuple[str, str, int, int, float]]:
    average = (sum(store.lengths) / len(store.records) if store.records else 0.0) or 1.0
    for row, (each, length) in enumerate(zip(store.ids, store.lengths, strict=True)):
        yield each, store.records[each][0], row * 7 + 3, length, 1.2 * ((1 - 0.75) + 0.75 * length / average)


def _frequency(store: Plain, places: Sequence[int]) -> int:
    return sum(store.weights[place >> COLUMN_SHIFT] for place in places)


def _postings(segment: Segment, place: int) -> Iterator[tuple[int, int, int, list[int]]]:
    """Yield row, slot, weighted frequency and positions of each posting of the term at *place*."""
    at, end = segment.position_starts[place : place + 2].tolist()
    entries = range(int(segment.entries[place]), int(segment.entries[place + 1]))
    for entry in entries:
        first, last = segment.entry_firsts[entry : entry + 2].tolist()
        assert first < last
        for posting in range(first, last):
            count = int(segment.counts[posting])
            places = widened(segment.positions[at : at + count]).tolist()
            yield (
                int(segment.rows[posting]),
                int(segment.entry_slots[entry]),
                int(segment.freqs[posting]),
                places,
            )
            at += count
    assert at == end
    slots = segment.entry_slots[entries.start : entries.stop].tolist()
    assert all(one < other for one, other in pairwise(slots))


@pytest.fixture(scope="session")
def model() -> Model:
    """Stores of plain Python; what segments of them must say, and what they do say."""
    return Model()


# --------------------------------------------------------------------------- real stores


class Library:
    """Real ContextPull stores, and SQLite's own answers, which are the judge's."""

    reader = ContextPull()

    def __init__(self, stores: Mapping[str, sqlite3.Connection]) -> None:
        self.stores = stores
        self.names = {f"of {name}": name for name in stores}  # by fingerprint
        self.segments = {name: self._segment(name, None) for name in stores}

    def lent(self, name: str, terms: Sequence[bytes]) -> Segment:
        """Return what a store in no segment lends to a query."""
        return self._segment(name, terms)

    def question(self, query: Query, loose: Query | None = None) -> Question:
        """Return *query* as the arrays are asked; *loose* are its words in the tier `any`."""
        phrases = self.reader.phrases(query)
        return Question(phrases, self.reader.phrases(loose or query), self.reader.tiers(query), query.limit)

    def own(self, name: str, query: Query, loose: Query | None = None) -> list[Ranked]:
        """Return the store's own list: each tier up to the limit, a record in its best tier only."""
        db = self.stores[name]
        loosely = replace(loose or query, limit=query.limit)
        tiers = [
            self.reader.ranked(db, loosely if tier == "any" else query, tier)
            for tier in self.reader.tiers(query)
        ]
        return dedupe(tiers, query.limit)

    def _segment(self, name: str, terms: Sequence[bytes] | None) -> Segment:
        postings = self.reader.postings(self.stores[name], terms)
        assert postings is not None
        return index_store(f"of {name}", self.reader.format, postings, None)


Documents = Mapping[str, Mapping[str, str]]
OpenLibrary = Callable[..., AbstractContextManager[Library]]


@pytest.fixture(scope="session")
def open_library(make_store: MakeStore, tmp_path_factory: pytest.TempPathFactory) -> OpenLibrary:
    """`with open_library({store: {path: text}}) as library` writes real stores and opens them."""

    @contextmanager
    def open_it(documents: Documents, *, max_chars: int = 120) -> Generator[Library]:
        folder = tmp_path_factory.mktemp("library")
        with ExitStack() as stack:
            stores: dict[str, sqlite3.Connection] = {}
            for name, texts in documents.items():
                path = make_store(folder / f"{name}.sqlite", texts, max_chars=max_chars, min_chars=5)
                db = sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
                stores[name] = stack.enter_context(closing(db))
            yield Library(stores)

    return open_it


class Drawn:
    """Documents and queries of few words, so that records tie, repeat each other and are all of a word."""

    # One term, the same term as another word, several terms, or none; some are in headings too.
    WORDS = (
        *("zebra", "Zebra", "a", "a", "to", "be", "to", "be", "tx-4419", "--no-cache", "3.12", "C++"),
        *("café", "Cafe", "日本語", "これは。日本語", "x²", "½", "a\u19b0b", "\u19b0"),
    )
    PATHS: tuple[str, ...] = ("a.md", "b.md", "b/a.md", "ü.md")

    word = st.sampled_from(WORDS)
    sentence = st.lists(word, min_size=1, max_size=9).map(" ".join)
    heading = st.tuples(st.integers(1, 3), sentence).map(lambda parts: f"{'#' * parts[0]} {parts[1]}")
    document = st.lists(heading | sentence, min_size=1, max_size=14).map("\n\n".join)

    words = st.lists(word, min_size=1, max_size=4).map(" ".join)
    odd = st.sampled_from(
        [
            "a a",
            "to be to be",
            "absent",
            "zebra absent",
            "--no-cache",
            "a\u19b0b zebra",
            "\u19b0 zebra",
            "日本語",
            "",
            "!",
        ]
    )
    query = words | words | odd

    # Parts of a path as a caller names them, and globs.
    within = st.lists(st.sampled_from(["a.md", "b", "b/", "*.md", "?.md", "no.md"]), max_size=2).map(tuple)

    def stores(self, names: Sequence[str], least: int = 1) -> st.SearchStrategy[dict[str, dict[str, str]]]:
        """Draw stores called as some of *names*, *least* or more, with some documents in common."""

        def of(pool: list[str]) -> st.SearchStrategy[dict[str, dict[str, str]]]:
            texts = st.dictionaries(
                st.sampled_from(self.PATHS), st.sampled_from(pool), min_size=1, max_size=3
            )
            return st.dictionaries(st.sampled_from(names), texts, min_size=least)

        return st.lists(self.document, min_size=2, max_size=4).flatmap(of)


@pytest.fixture(scope="session")
def drawn() -> Drawn:
    """Strategies for documents, queries and path filters."""
    return Drawn()
