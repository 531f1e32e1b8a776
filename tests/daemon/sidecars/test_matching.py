"""What a query matches in a segment, and the ranks of it, are what SQLite says of each of its stores."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from collated.sidecars.combining import combine
from collated.sidecars.finding import Found
from collated.sidecars.matching import Matching, Scored, Statistics
from collated.sidecars.segment import Segment, index_store
from collated_readers import Budget, Query, Ranked, StoreError, Tier
from collated_readers.contextpull import ContextPull
from collated_readers.contract import Phrase

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.daemon.sidecars.conftest import Drawn, Grouped, Library, Model, OpenLibrary, Plain

EVERY = 1_000_000
READER = ContextPull()
SLOW = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
QUICK = settings(
    SLOW, derandomize=True, phases=[Phase.generate]
)  # to make stores again and again takes minutes


# --------------------------------------------------------------------------- phrases


def _instances(store: Plain, phrase: Phrase) -> Iterator[tuple[int, int]]:
    """Yield row and weight of each place in which *phrase* stands."""
    for row, each in enumerate(store.ids):
        for column, tokens in enumerate(store.records[each][1]):
            for first in tokens:
                if all(tokens.get(first + number) == term for number, term in enumerate(phrase)):
                    yield row, store.weights[column]


def _expected(stores: Sequence[Plain], phrase: Phrase, slots: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return slot and weighted frequency of each row in which *phrase* stands, by row."""
    found: dict[int, tuple[int, int]] = {}
    first = 0
    for slot, store in enumerate(stores):
        for row, weight in _instances(store, phrase) if slot in slots else ():
            found[first + row] = (slot, found.get(first + row, (slot, 0))[1] + weight)
        first += len(store.records)
    return dict(sorted(found.items()))


def _as_dict(found: Found) -> dict[int, tuple[int, int]]:
    slots = np.repeat(found.slots, found.sizes).tolist()
    return dict(zip(found.rows.tolist(), zip(slots, found.freqs.tolist(), strict=True), strict=True))


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_phrase_is_found_where_its_terms_follow_each_other(
    model: Model, grouped: Grouped, data: st.DataObject
) -> None:
    stores = {store.fingerprint: store for store in data.draw(model.texts)}
    phrases = data.draw(
        st.lists(st.lists(st.sampled_from(model.TERMS[:3]), min_size=1, max_size=4), min_size=4)
    )
    for segment in grouped(data, [store.segment() for store in stores.values()]):
        here = [stores[piece.fingerprint] for piece in segment.pieces]
        slots = data.draw(st.sets(st.sampled_from(range(len(here)))))
        mask = np.array([slot in slots for slot in range(len(here))])
        for phrase in map(tuple, [*phrases, [b"absent"], [b"plumless", b"absent"]]):
            assert _as_dict(Matching(segment).found(phrase)) == _expected(here, phrase, range(len(here)))
            assert _as_dict(Matching(segment, mask).found(phrase)) == _expected(here, phrase, sorted(slots))


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_a_name_counts_as_often_as_it_is_given_whatever_else_there_is(
    model: Model, grouped: Grouped, data: st.DataObject
) -> None:
    stores = {store.fingerprint: store for store in data.draw(model.texts)}
    name = (data.draw(st.sampled_from(model.TERMS)),)
    for segment in grouped(data, [store.segment() for store in stores.values()]):
        here = [stores[piece.fingerprint] for piece in segment.pieces]
        expected = {row: weight for row, (_, weight) in _expected(here, name, range(len(here))).items()}
        shown = np.array(
            data.draw(st.lists(st.booleans(), min_size=segment.size, max_size=segment.size)), bool
        )
        for rows in (None, shown):
            scored = Matching(segment, rows=rows).tier("symbol", [name])
            found = dict(zip(scored.rows.tolist(), scored.scores.tolist(), strict=True))
            assert found == {row: w for row, w in expected.items() if rows is None or rows[row]}


@pytest.mark.parametrize("width", [2, 4])
def test_no_phrase_runs_from_one_column_into_the_next(model: Model, width: int) -> None:
    last = 32766 if width == 2 else (1 << 24) - 2
    columns = [{last - 1: b"a", last: b"b"}, {0: b"c", 1: b"d"}]
    segment = model.Store("f", {"1": ("a.md", columns)}).segment()
    assert segment.positions.dtype.itemsize == width
    matching = Matching(segment)
    assert len(matching.found((b"a", b"b")).rows) == len(matching.found((b"c", b"d")).rows) == 1
    for phrase in [(b"b", b"c"), (b"a", b"b", b"c"), (b"b", b"c", b"d"), (b"a", b"c"), (b"b", b"d")]:
        assert len(matching.found(phrase).rows) == 0


def test_a_record_of_more_words_than_two_bytes_count_is_ranked_as_sqlite_does(
    make_store: MakeStore, tmp_path: Path
) -> None:
    words = ["w"] * 32_765 + ["one", "two", "three", "four", "five", "one", "two"]
    texts = {"long.md": "# one two\n\n" + " ".join(words), "short.md": "# one\n\ntwo three four, one two\n"}
    path = make_store(tmp_path / "s.sqlite", texts, max_chars=1 << 20)
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as db:
        postings = READER.postings(db)
        assert postings is not None
        segment = index_store("f", "contextpull", postings, None)
        assert segment.positions.dtype == np.uint32
        for text in ("one two", "two three", "three four", "one two three four five", "five w", "w w", "w"):
            query = Query(text, limit=EVERY)
            for tier in READER.tiers(query):
                scored = Matching(segment).tier(tier, READER.phrases(query))
                assert _ranked(segment, scored, tier) == READER.ranked(db, query, tier)


# --------------------------------------------------------------------------- tiers


def _ranked(segment: Segment, scored: Scored, tier: Tier, slot: int = 0) -> list[Ranked]:
    """Return a store's rows as its reader does."""
    assert scored.rows.tolist() == sorted(set(scored.rows.tolist()))
    first, last = segment.row_starts[slot : slot + 2].tolist()
    found = [
        Ranked(segment.id(row), tier, -score, int(segment.arrays["locators"][row]))
        for row, score in zip(scored.rows.tolist(), scored.scores.tolist(), strict=True)
        if first <= row < last
    ]
    return sorted(found, key=lambda one: (one.rank, one.id))


def _check_tiers(library: Library, segment: Segment, text: str, slots: Sequence[int]) -> None:
    query = Query(text, limit=EVERY)
    matchings = [Matching(segment)]
    if len(slots) < len(segment.pieces):
        matchings.append(Matching(segment, np.isin(np.arange(len(segment.pieces)), slots)))
    for matching in matchings:
        counting = range(len(segment.pieces)) if matching is matchings[0] else slots
        for tier in READER.tiers(query):
            scored = matching.tier(tier, READER.phrases(query))
            for slot, piece in enumerate(segment.pieces):
                db = library.stores[library.names[piece.fingerprint]]
                expected = READER.ranked(db, query, tier) if slot in counting else []
                assert _ranked(segment, scored, tier, slot) == expected, (text, tier)


def _compare_tiers(open_library: OpenLibrary, grouped: Grouped, drawn: Drawn, data: st.DataObject) -> None:
    with open_library(data.draw(drawn.stores("abc"))) as library:
        queries = data.draw(st.lists(drawn.query, min_size=4, max_size=8))
        for segment in grouped(data, list(library.segments.values())):
            slots = data.draw(st.lists(st.sampled_from(range(len(segment.pieces))), unique=True))
            for text in [*queries, " ".join(drawn.WORDS * 15)]:
                _check_tiers(library, segment, text, slots)


@settings(QUICK, max_examples=5)
@given(data=st.data())
def test_each_tier_is_what_sqlite_gives(
    open_library: OpenLibrary, grouped: Grouped, drawn: Drawn, data: st.DataObject
) -> None:
    _compare_tiers(open_library, grouped, drawn, data)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(SLOW, max_examples=60)
@given(data=st.data())
def test_each_tier_is_what_sqlite_gives_at_length(
    open_library: OpenLibrary, grouped: Grouped, drawn: Drawn, data: st.DataObject
) -> None:
    _compare_tiers(open_library, grouped, drawn, data)


def test_few_records_among_many_are_scored_as_among_few(open_library: OpenLibrary) -> None:
    sections = [f"# Section {number}\n\nplain text number n{number}" for number in range(300)]
    sections[7] += " zebra lion"
    sections[8] += " lion"
    sections[290] += " zebra zebra, a lion and a tiger"
    with open_library({"a": {"a.md": "\n\n".join(sections)}}) as library:
        segment = library.segments["a"]
        for text in (
            "zebra lion",
            "lion zebra lion",
            "tiger zebra n5 n299",
            "zebra text",
            "lion",
            "n1 n2 n3",
        ):
            _check_tiers(library, segment, text, [0])


def test_only_rows_that_are_asked_for_are_hits_and_count_no_less(model: Model) -> None:
    records = {f"{number}": ("a.md", [{0: b"whale", 1: b"a"}]) for number in range(4)}
    segment = model.Store("f", records).segment()
    phrases = [(b"whale",), (b"a",)]
    everything = Matching(segment)
    some = Matching(segment, rows=np.array([False, True, False, True]))
    tiers: tuple[Tier, ...] = ("phrase", "all", "any")
    for tier in tiers:
        scored = some.tier(tier, phrases)
        assert scored.rows.tolist() == [1, 3]
        assert scored.scores.tolist() == everything.tier(tier, phrases).scores[[1, 3]].tolist()
    assert some.found((b"whale",)).rows.tolist() == [0, 1, 2, 3]
    assert some.totals() == everything.totals() == (4, 8)


def test_a_word_of_no_term_is_in_no_record_that_has_all(model: Model) -> None:
    segment = model.Store("f", {"1": ("a.md", [{0: b"whale", 1: b"a"}])}).segment()
    matching = Matching(segment)
    words: list[Phrase] = [(b"whale",), (), (b"a",)]
    assert matching.tier("phrase", words).rows.tolist() == [0]
    assert matching.tier("all", words).rows.tolist() == []
    assert matching.tier("any", words).rows.tolist() == [0]
    tiers: tuple[Tier, ...] = ("phrase", "all", "any")
    for tier in tiers:
        assert matching.tier(tier, [(), ()]).rows.tolist() == []
        assert matching.tier(tier, []).rows.tolist() == []


def test_the_cost_of_a_query_is_the_number_of_its_postings(model: Model) -> None:
    one = model.Store("one", {"1": ("a.md", [{0: b"whale", 1: b"a"}]), "2": ("a.md", [{0: b"a"}])})
    other = model.Store("other", {"1": ("a.md", [{0: b"a", 9: b"a"}])})
    segment = combine([(one.segment(), [0]), (other.segment(), [0])])
    matching = Matching(segment, np.array([True, False]))
    assert matching.cost([(b"whale",)]) == 1
    assert matching.cost([(b"a",)]) == 3
    assert matching.cost([(b"whale", b"a"), (b"a",), (b"absent",), ()]) == 1 + 3 + 3
    assert matching.totals() == (2, 3)


def test_a_query_ends_with_its_budget(model: Model) -> None:
    matching = Matching(model.Store("f", {"1": ("a.md", [{0: b"whale"}])}).segment())
    matching.budget = budget = Budget.lasting(60)
    assert matching.tier("any", [(b"whale",)]).rows.tolist() == [0]
    budget.cancelled = True
    with pytest.raises(StoreError) as caught:
        matching.tier("any", [(b"whale",)])
    assert caught.value.code == "deadline_exceeded"


# --------------------------------------------------------------------------- summed statistics


def _score(record: tuple[Plain, int], query: Sequence[Phrase], statistics: Statistics) -> float:
    """Return bm25 in the order of operations of FTS5, with *statistics* for the store's own."""
    (store, row), score = record, 0.0
    for phrase in query:
        count = statistics.frequencies[phrase]
        idf = math.log((statistics.total_rows - count + 0.5) / (count + 0.5))
        frequency = float(sum(weight for at, weight in _instances(store, phrase) if at == row))
        length = float(store.lengths[row])
        score += (1e-6 if idf <= 0.0 else idf) * (
            (frequency * (1.2 + 1.0))
            / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / (statistics.average or 1.0)))
        )
    return score


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_records_are_scored_by_the_statistics_in_use(model: Model, data: st.DataObject) -> None:
    stores = data.draw(model.texts)
    segment = combine([(store.segment(), [0]) for store in stores])
    words: list[Phrase] = [(term,) for term in model.TERMS[:3]]
    query = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=4))
    before = Matching(segment).tier("any", query).scores.tolist()
    rows = [(store, row) for store in stores for row in range(len(store.records))]
    for average in data.draw(st.lists(st.sampled_from([0.0, 1.0, 3.3, 32767.9]), min_size=2, max_size=3)):
        frequencies = {phrase: data.draw(st.integers(0, 100)) for phrase in query}
        statistics = Statistics(frequencies, 100, average)
        matching = Matching(segment)
        matching.use(statistics)
        scored = matching.tier("any", query)
        found: list[int] = scored.rows.tolist()
        expected = [_score(rows[row], query, statistics) for row in found]
        assert scored.scores.tolist() == expected
    # The stores' own are untouched by it.
    assert Matching(segment).tier("any", query).scores.tolist() == before


def test_a_word_in_most_records_weighs_next_to_nothing_never_less() -> None:
    weights = [Statistics({(b"a",): count}, 10, 1.0).weight((b"a",)) for count in (0, 1, 4, 5, 6, 10)]
    assert weights[3:] == [1e-6] * 3
    assert all(one > other for one, other in pairwise(weights[:4]))
