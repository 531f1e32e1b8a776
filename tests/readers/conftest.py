"""What tests of several formats need: another program with a store open, bm25 over `Postings`."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collated_readers import (
    Budget,
    Query,
    Ranked,
    Reader,
    StoreError,
    Tier,
)
from collated_readers.contract import Phrase
from collated_readers.opening import StoreConnection, ask
from collated_readers.postings import COLUMN_SHIFT, Postings

# Runs the statement in each line, which commits by itself, and answers `ok` or the error.
# `repeat STATEMENT` is answered once and never ends.
_OTHER_PROCESS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
def run(sql):
    try:
        db.execute(sql).fetchall()
        return "ok"
    except sqlite3.Error as error:
        return str(error)
for line in sys.stdin:
    sql = line.removeprefix("repeat ")
    print(run(sql), flush=True)
    while sql != line:
        run(sql)
"""


class OtherProcess:
    """Another program with a store open; killed at the end, so it may leave a `-wal` behind."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OTHER_PROCESS, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, sql: str) -> str:
        """Run one statement there and return what it says."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(sql + "\n")
        stdin.flush()
        return stdout.readline().strip()

    def kill(self) -> None:
        """End it without any last words to its database."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def other_process() -> Iterator[Callable[[Path], OtherProcess]]:
    """`other_process(path)` starts a program that has the database at *path* open."""
    started: list[OtherProcess] = []

    def start(path: Path) -> OtherProcess:
        started.append(OtherProcess(path))
        return started[-1]

    yield start
    for process in started:
        process.kill()


# ---------------------------------------------------------------- stores and what is asked of them


@pytest.fixture
def written_store(
    make_store: Callable[..., Path], other_process: Callable[[Path], OtherProcess]
) -> Callable[[Path], Path]:
    """`written_store(folder)` makes a store of two documents whose newest frames are in its `-wal` alone."""

    def make(folder: Path) -> Path:
        path = make_store(
            folder / "store.sqlite", {"a.md": "# Zebra\n\nA zebra.\n", "b.md": "# B\n\nMore.\n"}
        )
        assert other_process(path).run("UPDATE documents SET title = 'not checkpointed'") == "ok"
        return path

    return make


@pytest.fixture(scope="session")
def asked() -> Callable[[StoreConnection], int]:
    """`asked(db)` is the number of documents, asked for as the daemon asks."""

    def count(db: StoreConnection) -> int:
        number: int = db.execute("SELECT count(*) FROM documents").fetchone()[0]
        return number

    return lambda db: ask(db, count, Budget.lasting(30))


@pytest.fixture(scope="session")
def code_of() -> Callable[[Callable[[], object]], str]:
    """`code_of(function)` is the code of the `StoreError` that *function* must raise."""

    def call(function: Callable[[], object]) -> str:
        with pytest.raises(StoreError) as caught:
            function()
        return caught.value.code

    return call


@pytest.fixture(scope="session")
def tree() -> Callable[[Path], dict[str, Any]]:
    """`tree(folder)` is everything in it: names, bytes, times of last change, modes."""

    def look(folder: Path) -> dict[str, Any]:
        return {
            str(path.relative_to(folder)): (
                path.read_bytes() if path.is_file() else None,
                path.lstat().st_mtime_ns,
                path.lstat().st_mode,
            )
            for path in [folder, *folder.rglob("*")]
        }

    return look


# ------------------------------------------------------- bm25 over `Postings`, as FTS5 has it

Places = set[int]
_EVERY = 1_000_000
_LONG = 60  # seconds


class Scorer:
    """bm25 in the order of operations of FTS5 (formats/contextpull.md §4.3), over `Postings` alone."""

    def __init__(self, postings: Postings) -> None:
        self.postings = postings
        self.places: dict[bytes, dict[int, Places]] = {}
        for number, term in enumerate(postings.terms):
            found: dict[int, Places] = defaultdict(set)
            part = slice(postings.starts[number], postings.starts[number + 1])
            rows, positions = postings.rows[part].tolist(), postings.positions[part].tolist()
            for row, position in zip(rows, positions, strict=True):
                found[row].add(position)
            self.places[term] = found

    def ranked(self, words: Sequence[Phrase], tier: Tier) -> list[Ranked]:
        """Return all records that match, best first."""
        if tier == "phrase":
            words = [tuple(term for phrase in words for term in phrase)]
        each = [self._instances(phrase) for phrase in words]
        every = [found.keys() for found in each]
        rows = set[int]().union(*every) if tier == "any" else _common(every)
        given = [self._ranked(row, tier, each) for row in rows]
        return sorted(given, key=lambda one: (one.rank, one.id))

    def named(self, name: Phrase) -> list[Ranked]:
        """Return the records of a name, best first."""
        postings = self.postings
        found = self._instances(name).items() if name else ()
        given = [
            Ranked(postings.ids[row], "symbol", -float(len(at)), int(postings.locators[row]))
            for row, at in found
        ]
        return sorted(given, key=lambda one: (one.rank, one.id))

    def _instances(self, phrase: Phrase) -> dict[int, Places]:
        """Return where *phrase* begins, by row."""
        every = [self.places.get(term, {}) for term in phrase]
        begins = {
            row: _common([{at - n for at in found[row]} for n, found in enumerate(every)])
            for row in _common([found.keys() for found in every])
        }
        return {row: places for row, places in begins.items() if places}

    def _ranked(self, row: int, tier: Tier, each: Sequence[dict[int, Places]]) -> Ranked:
        postings, score = self.postings, 0.0
        average = postings.total_tokens / postings.total_rows
        for found in each:
            frequency = sum(float(postings.weights[at >> COLUMN_SHIFT]) for at in found.get(row, ()))
            length = float(postings.lengths[row])
            score += self._idf(len(found)) * (
                (frequency * (1.2 + 1.0)) / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / average))
            )
        return Ranked(postings.ids[row], tier, -1.0 * score, int(postings.locators[row]))

    def _idf(self, count: int) -> float:
        idf = math.log((self.postings.total_rows - count + 0.5) / (count + 0.5))
        return 1e-6 if idf <= 0.0 else idf


def _common(every: Sequence[Collection[int]]) -> set[int]:
    """Return what is in all of *every*, which is nothing where there is none."""
    return set(every[0]).intersection(*every[1:]) if every else set()


class _Checker:
    """Compares what *reader* says of the index of a store with what it ranks."""

    def __init__(self, reader: Reader, db: StoreConnection) -> None:
        self.reader = reader
        self.db = db

    def postings(self, terms: Sequence[bytes] | None = None) -> Postings:
        """Return the store's postings."""
        found = ask(self.db, lambda db: self.reader.postings(db, terms), Budget.lasting(_LONG))
        assert found is not None
        return found

    def check(self, texts: Sequence[str], stored: Collection[tuple[str, str]]) -> None:
        """Check all records, which are those *stored* (id and path), and the queries *texts*."""
        whole = self.postings()
        _check_shape(whole)
        assert list(whole.terms) == ask(self.db, self.reader.vocabulary, Budget.lasting(_LONG))
        assert list(zip(whole.ids, whole.docs, strict=True)) == sorted(stored)
        scorer = Scorer(whole)
        for text in texts:
            self._check_query(scorer, text)

    def _check_query(self, whole: Scorer, text: str) -> None:
        query = Query(text, limit=_EVERY)
        phrases, name = self.reader.phrases(query), self.reader.names(query)
        terms = [*name, *(term for phrase in phrases for term in phrase)]
        part = self.postings([*terms, *terms, b"no such term"])
        _check_restriction(whole.postings, part, set(terms))
        for tier in self.reader.tiers(query):
            ranked = partial(self.reader.ranked, query=query, tier=tier)
            expected = ask(self.db, ranked, Budget.lasting(_LONG))
            for scorer in (whole, Scorer(part)):
                found = scorer.named(name) if tier == "symbol" else scorer.ranked(phrases, tier)
                assert found == expected, (text, tier)


def _check_restriction(whole: Postings, part: Postings, terms: set[bytes]) -> None:
    assert part.terms == [term for term in whole.terms if term in terms]
    assert (part.total_rows, part.total_tokens) == (whole.total_rows, whole.total_tokens)
    assert _listed(part) == [each for each in _listed(whole) if each[0] in terms]
    assert set(part.ids) == {each[1] for each in _listed(part)}
    _check_shape(part)


def _listed(postings: Postings) -> list[tuple[bytes, str, str, int, int, int]]:
    """Return each instance: term, id, path, locator, length, position."""
    sizes = np.diff(postings.starts).tolist()
    terms = [each for term, size in zip(postings.terms, sizes, strict=True) for each in repeat(term, size)]
    rows: list[int] = postings.rows.tolist()
    positions: list[int] = postings.positions.tolist()
    locators: list[int] = postings.locators.tolist()
    lengths: list[int] = postings.lengths.tolist()
    return [
        (term, postings.ids[row], postings.docs[row], locators[row], lengths[row], position)
        for term, row, position in zip(terms, rows, positions, strict=True)
    ]


def _check_shape(postings: Postings) -> None:
    count = len(postings.ids)
    assert list(postings.ids) == sorted(set(postings.ids), key=str.encode)
    assert len(postings.docs) == len(postings.locators) == len(postings.lengths) == count
    assert list(postings.terms) == sorted(set(postings.terms))
    assert postings.starts[0] == 0
    assert postings.starts[-1] == len(postings.rows) == len(postings.positions)
    assert (np.diff(postings.starts) > 0).all()
    types = [each.dtype for each in (postings.locators, postings.lengths, postings.starts, postings.rows)]
    assert types == [np.int64, np.uint32, np.int64, np.uint32]
    assert postings.positions.dtype == np.uint32
    for first, last in pairwise(postings.starts.tolist()):
        pairs = list(
            zip(postings.rows[first:last].tolist(), postings.positions[first:last].tolist(), strict=True)
        )
        assert pairs == sorted(set(pairs))


@pytest.fixture(scope="session")
def check_index() -> Callable[..., None]:
    """`check_index(reader, db, queries, stored)` tells whether bm25 over a store's arrays is what it ranks.

    *stored* are the store's records, id and path.
    """

    def check(
        reader: Reader, db: StoreConnection, texts: Sequence[str], stored: Collection[tuple[str, str]]
    ) -> None:
        _Checker(reader, db).check(texts, stored)

    return check


@pytest.fixture(scope="session")
def check_postings() -> Callable[[Postings], None]:
    """`check_postings(postings)` tells whether they are of the shape that `Postings` demands."""
    return _check_shape
