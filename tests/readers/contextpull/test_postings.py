"""What a reader says of its index: bm25 over its arrays is the very list that SQLite gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated_readers import Budget
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection, ask, open_store
from collated_readers.postings import COLUMN_SHIFT, Postings

MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
CheckIndex = Callable[..., None]

READER = ContextPull()
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


def _vocabulary(db: StoreConnection) -> list[bytes]:
    found = ask(db, READER.vocabulary, Budget.lasting(60))
    assert found is not None
    return list(found)


def _postings(db: StoreConnection) -> Postings:
    found = ask(db, READER.postings, Budget.lasting(60))
    assert found is not None
    return found


def _check_store(check_index: CheckIndex, db: StoreConnection, texts: Sequence[str]) -> None:
    stored = db.execute("SELECT s.id, d.path FROM sections s JOIN documents d USING (doc_id)").fetchall()
    check_index(READER, db, texts, stored)


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
    shared: Path, open_at: OpenAt, check_index: CheckIndex, name: str
) -> None:
    data = shared / "data" / "contextpull"
    cases = json.loads((data / "extra" / "tokens.json").read_text(encoding="utf-8"))
    db = open_at(data / name)
    words = [word for word in _vocabulary(db)[::9] if word.decode().isalnum()]
    pairs = [f"{one.decode()} {other.decode()}" for one, other in pairwise(words)]
    _check_store(
        check_index,
        db,
        [*(case["query"] for case in cases), *pairs, "the a of", "refund window", "blue whale"],
    )


@pytest.mark.slow
def test_an_index_of_more_than_is_read_at_a_time_is_read_whole(
    doctored: Callable[..., StoreConnection], check_postings: Callable[[Postings], None]
) -> None:
    words = "a " * 600_000 + "b " * 200_000
    db = doctored(
        f"UPDATE sections_fts SET heading_path = 'b', text = '{words}' WHERE id = 'a.md#1'",  # noqa: S608 - a test's
        "UPDATE sections_fts SET heading_path = '', text = 'b a' WHERE id = 'a.md#0'",
    )
    whole = _postings(db)
    check_postings(whole)
    in_text = [(1 << COLUMN_SHIFT) + offset for offset in range(800_000)]
    places = {b"a": [(0, in_text[1]), *((1, at) for at in in_text[:600_000])]}
    places[b"b"] = [(0, in_text[0]), (1, 0), *((1, at) for at in in_text[600_000:])]
    for term, expected in places.items():
        part = slice(*whole.starts[whole.terms.index(term) :][:2])
        assert (
            list(zip(whole.rows[part].tolist(), whole.positions[part].tolist(), strict=True))[: len(expected)]
            == expected
        )


def _compare(folder: Path, make_store: MakeStore, check_index: CheckIndex, data: st.DataObject) -> None:
    path = folder / "store.sqlite"
    for _ in range(data.draw(st.integers(1, 3))):  # the second time some documents change and some go
        make_store(path, data.draw(corpora), rollback=True, max_chars=200, min_chars=5)
    budget = Budget.lasting(60)
    with closing(open_store(path, copies=folder / "c", copy_limit_bytes=0, budget=budget)) as db:
        _check_store(check_index, db, data.draw(queries))
    path.unlink()


@given(data=st.data())
@settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=UNCHECKED)
def test_bm25_over_the_arrays_is_what_sqlite_gives(
    tmp_path_factory: pytest.TempPathFactory,
    make_store: MakeStore,
    check_index: CheckIndex,
    data: st.DataObject,
) -> None:
    _compare(tmp_path_factory.mktemp("store"), make_store, check_index, data)


@pytest.mark.slow
@pytest.mark.timeout(600)
@given(data=st.data())
@settings(max_examples=200, deadline=None, database=None, suppress_health_check=UNCHECKED)
def test_bm25_over_the_arrays_is_what_sqlite_gives_at_length(
    tmp_path_factory: pytest.TempPathFactory,
    make_store: MakeStore,
    check_index: CheckIndex,
    data: st.DataObject,
) -> None:
    _compare(tmp_path_factory.mktemp("store"), make_store, check_index, data)
