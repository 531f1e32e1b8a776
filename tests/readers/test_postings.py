"""What a reader says of its index: bm25 over its arrays is the very list that SQLite gives."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated_readers import Budget, Query, Ranked, Tier
from collated_readers.contextpull import ContextPull
from collated_readers.contract import Phrase
from collated_readers.opening import StoreConnection, ask, open_store
from collated_readers.postings import COLUMN_SHIFT, Postings

MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
Places = set[int]

READER = ContextPull()
EVERY = 1_000_000
UNCHECKED = [HealthCheck.too_slow, HealthCheck.data_too_large]

# Words that make one term, the same term as another word, several terms, none, or only tokens; few
# enough to tie, to repeat and to be in most sections.
WORDS = (
    *("zebra", "Zebra", "a", "a", "tx-4419", "--no-cache", "e.g.", "3.12", "_p_", "-x-", "-", "---", "C++"),
    *(
        "café",
        "Cafe",
        "re\u0301sume\u0301",
        "résumé",
        "İstanbul",
        "Σίσυφος",
        "日本語",
        "これは。日本語",
        "½",
        "x²",
    ),
    *("a\u19b0b", "\u19b0", "🤖bot", "😀bot", "\ue000a", "ᏣᎳᎩ", "ⅷ", "K\u0332a", "ſo", "300\u212a"),
)
word = st.sampled_from(WORDS)
sentence = st.lists(word, min_size=1, max_size=10).map(" ".join)
heading = st.tuples(st.integers(1, 3), sentence).map(lambda parts: f"{'#' * parts[0]} {parts[1]}")
document = st.lists(heading | sentence, min_size=1, max_size=8).map("\n\n".join)
NAMES = ("a.md", "b.md", "dir/c.md", "ü.md")
corpora = st.dictionaries(st.sampled_from(NAMES), document, min_size=1)
queries = st.lists(st.lists(word, max_size=4).map(" ".join), min_size=8, max_size=20)


def _postings(db: StoreConnection, terms: Sequence[bytes] | None = None) -> Postings:
    found = ask(db, lambda db: READER.postings(db, terms), Budget.lasting(60))
    assert found is not None
    return found


def _vocabulary(db: StoreConnection) -> list[bytes]:
    found = ask(db, READER.vocabulary, Budget.lasting(60))
    assert found is not None
    return list(found)


# --------------------------------------------------------------------------- bm25, as FTS5 has it


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


def _check_query(db: StoreConnection, whole: Scorer, text: str) -> None:
    query = Query(text, limit=EVERY)
    phrases = READER.phrases(query)
    terms = [term for phrase in phrases for term in phrase]
    part = _postings(db, [*terms, *terms, b"no such term"])
    _check_restriction(whole.postings, part, set(terms))
    for tier in READER.tiers(query):
        expected = ask(db, partial(READER.ranked, query=query, tier=tier), Budget.lasting(60))
        assert whole.ranked(phrases, tier) == expected, (text, tier)
        assert Scorer(part).ranked(phrases, tier) == expected, (text, tier)


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


def _check_store(db: StoreConnection, texts: Sequence[str]) -> None:
    whole = _postings(db)
    _check_shape(whole)
    assert list(whole.terms) == _vocabulary(db)
    stored = db.execute("SELECT s.id, d.path FROM sections s JOIN documents d USING (doc_id)").fetchall()
    assert list(zip(whole.ids, whole.docs, strict=True)) == sorted(stored)
    scorer = Scorer(whole)
    for text in texts:
        _check_query(db, scorer, text)


# --------------------------------------------------------------------------- real and made-up stores


@pytest.mark.parametrize(
    "name",
    [
        "store-wal.sqlite",
        "store-rollback.sqlite",
        *(pytest.param(f"extra/{each}.sqlite", marks=pytest.mark.slow) for each in ("extra", "hybrid")),
    ],
)
def test_bm25_over_the_arrays_of_a_real_store_is_what_sqlite_gives(
    shared: Path, open_at: OpenAt, name: str
) -> None:
    data = shared / "data" / "contextpull"
    cases = json.loads((data / "extra" / "tokens.json").read_text(encoding="utf-8"))
    db = open_at(data / name)
    words = [word for word in _vocabulary(db)[::9] if word.decode().isalnum()]
    pairs = [f"{one.decode()} {other.decode()}" for one, other in pairwise(words)]
    _check_store(db, [*(case["query"] for case in cases), *pairs, "the a of", "refund window", "blue whale"])


@pytest.mark.slow
def test_an_index_of_more_than_is_read_at_a_time_is_read_whole(
    doctored: Callable[..., StoreConnection],
) -> None:
    words = "a " * 600_000 + "b " * 200_000
    db = doctored(
        f"UPDATE sections_fts SET heading_path = 'b', text = '{words}' WHERE id = 'a.md#1'",  # noqa: S608 - a test's
        "UPDATE sections_fts SET heading_path = '', text = 'b a' WHERE id = 'a.md#0'",
    )
    whole = _postings(db)
    _check_shape(whole)
    in_text = [(1 << COLUMN_SHIFT) + offset for offset in range(800_000)]
    places = {b"a": [(0, in_text[1]), *((1, at) for at in in_text[:600_000])]}
    places[b"b"] = [(0, in_text[0]), (1, 0), *((1, at) for at in in_text[600_000:])]
    for term, expected in places.items():
        part = slice(*whole.starts[whole.terms.index(term) :][:2])
        assert (
            list(zip(whole.rows[part].tolist(), whole.positions[part].tolist(), strict=True))[: len(expected)]
            == expected
        )


def _compare(folder: Path, make_store: MakeStore, data: st.DataObject) -> None:
    path = folder / "store.sqlite"
    for _ in range(data.draw(st.integers(1, 3))):  # the second time some documents change and some go
        make_store(path, data.draw(corpora), rollback=True, max_chars=200, min_chars=5)
    budget = Budget.lasting(60)
    with closing(open_store(path, copies=folder / "c", copy_limit_bytes=0, budget=budget)) as db:
        _check_store(db, data.draw(queries))
    path.unlink()


@given(data=st.data())
@settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=UNCHECKED)
def test_bm25_over_the_arrays_is_what_sqlite_gives(
    tmp_path_factory: pytest.TempPathFactory, make_store: MakeStore, data: st.DataObject
) -> None:
    _compare(tmp_path_factory.mktemp("store"), make_store, data)


@pytest.mark.slow
@pytest.mark.timeout(600)
@given(data=st.data())
@settings(max_examples=400, deadline=None, database=None, suppress_health_check=UNCHECKED)
def test_bm25_over_the_arrays_is_what_sqlite_gives_at_length(
    tmp_path_factory: pytest.TempPathFactory, make_store: MakeStore, data: st.DataObject
) -> None:
    _compare(tmp_path_factory.mktemp("store"), make_store, data)
