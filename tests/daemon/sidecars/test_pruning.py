"""Leaving out rows that cannot win changes no answer: plain Python that scores every row says the same."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated.merge import Order, contract_key, global_key
from collated.sidecars.combining import combine
from collated.sidecars.corpus import Addressed, Corpus, Question, best, summed
from collated.sidecars.matching import Matching, Thrift
from collated.sidecars.segment import Segment
from collated_readers import Ranked, Tier
from collated_readers.contract import Phrase

if TYPE_CHECKING:
    from tests.daemon.sidecars.conftest import Grouped, Model, Plain

WORDS = (b"the", b"of", b"whale", b"ahab", b"ship")
TIERS: tuple[Tier, ...] = ("phrase", "all", "any")
ORDERS: tuple[Order, ...] = ("contract", "global")
ALWAYS = Thrift(postings=0, rows=1)


# --------------------------------------------------------------------------- every row, in plain Python


def _frequency(store: Plain, own: str, phrase: Phrase) -> int:
    """Return how often *phrase* is in the record *own*, weighted."""
    return sum(
        store.weights[column]
        for column, tokens in enumerate(store.records[own][1])
        for first in tokens
        if all(tokens.get(first + number) == term for number, term in enumerate(phrase))
    )


class Oracle:
    """Scores every row of every store, in the order of operations of FTS5."""

    def __init__(self, stores: Mapping[str, Plain], paths: Collection[str], order: Order) -> None:
        """Rank *stores*, by name, of which only documents at *paths* are hits."""
        self._stores = stores
        self._paths = paths
        self._is_global = order == "global"

    def best(self, question: Question) -> list[tuple[str, Ranked]]:
        """Return what `merge` would make of all stores' own lists."""
        key = global_key if self._is_global else contract_key
        first: dict[tuple[str, str], tuple[str, Ranked]] = {}
        for tier in question.tiers:
            for hit in sorted(self._tier(tier, question.words(tier)), key=lambda each: key(*each)):
                first.setdefault((hit[0], hit[1].id), hit)
        return list(first.values())[: question.limit]

    def _tier(self, tier: Tier, words: Sequence[Phrase]) -> Iterator[tuple[str, Ranked]]:
        phrases = [tuple(term for word in words for term in word)] if tier == "phrase" else words
        every = {
            (name, own): [_frequency(store, own, phrase) for phrase in phrases]
            for name, store in self._stores.items()
            for own in store.ids
        }
        for name, store in self._stores.items():
            counted = self._stores if self._is_global else {name: store}
            rows = [freqs for (owner, _), freqs in every.items() if owner in counted]
            average = sum(sum(each.lengths) for each in counted.values()) / max(1, len(rows))
            weights = [_weight(len(rows), sum(map(bool, column))) for column in zip(*rows, strict=True)]
            for row, (own, length) in enumerate(zip(store.ids, store.lengths, strict=True)):
                freqs = every[name, own]
                if store.records[own][0] in self._paths and (all if tier == "all" else any)(freqs):
                    norm = 1.2 * (1 - 0.75 + 0.75 * float(length) / average)
                    score = 0.0
                    for weight, freq in zip(weights, freqs, strict=True):
                        score += weight * ((float(freq) * 2.2) / (float(freq) + norm))
                    yield name, Ranked(own, tier, -score, row * 7 + 3)


def _weight(rows: int, count: int) -> float:
    weight = math.log((rows - count + 0.5) / (count + 0.5))
    return 1e-6 if weight <= 0.0 else weight


# --------------------------------------------------------------------------- the same by arrays


def _best(sections: Sequence[Addressed], question: Question, order: Order, thrift: Thrift) -> list[Any]:
    matchings = [Matching(each.segment, each.slots, each.rows, thrift) for each in sections]
    if order == "global":
        statistics = summed([(matchings, question)])
        for matching in matchings:
            matching.use(statistics)
    return best(sections, matchings, question, order)


_TEXT = st.lists(st.sampled_from(WORDS), max_size=6)
_RECORD = st.tuples(st.sampled_from(["a.md", "b.md"]), _TEXT, _TEXT)
_RECORDS = st.lists(_RECORD, max_size=12)
_QUERY = st.lists(st.sampled_from([*((word,) for word in WORDS), (b"the", b"whale")]), min_size=1, max_size=5)


def _store(
    model: Model, number: int, records: Sequence[tuple[str, Sequence[bytes], Sequence[bytes]]]
) -> Plain:
    columns = {
        f"{row:02}": (path, [dict(enumerate(title)), dict(enumerate(text))])
        for row, (path, title, text) in enumerate(records)
    }
    return model.Store(f"f{number}", columns)


@pytest.mark.slow
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_best_rows_are_those_of_scoring_all(model: Model, grouped: Grouped, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(_RECORDS, min_size=1, max_size=6))
    # Few different stores, each several times: their records tie.
    stores = [_store(model, number, data.draw(st.sampled_from(drawn))) for number in range(len(drawn) * 2)]
    names = {store.fingerprint: f"{number % 3}-{number}" for number, store in enumerate(stores)}
    asked = data.draw(st.just(set(names.values())) | st.sets(st.sampled_from(sorted(names.values()))))
    paths = data.draw(st.sampled_from([("a.md", "b.md"), ("a.md",)]))
    corpus = Corpus(grouped(data, [store.segment() for store in stores]), names)
    sections = [each.within(paths, paths.__contains__) for each in corpus.addressed(asked)]
    query = tuple(data.draw(_QUERY))
    loose = query[: data.draw(st.integers(1, len(query)))]
    question = Question(
        query, loose, data.draw(st.sampled_from([TIERS, ("any",)])), data.draw(st.integers(1, 30))
    )
    thrift = Thrift(0, data.draw(st.integers(1, 40)))
    counted = {names[store.fingerprint]: store for store in stores if names[store.fingerprint] in asked}
    for order in ORDERS:
        assert _best(sections, question, order, thrift) == Oracle(counted, paths, order).best(question)


def test_the_best_of_many_stores_are_those_of_scoring_all(model: Model) -> None:
    chance = random.Random(7)  # noqa: S311 - the same stores each time

    def text() -> list[bytes]:
        return [b"the", *chance.choices(WORDS, [9, 9, 2, 1, 1], k=chance.randint(2, 12)), b"of"]

    stores = [_store(model, number, [("a.md", [], text()) for _ in range(20)]) for number in range(50)]
    names = {store.fingerprint: store.fingerprint for store in stores}
    parts = [(store.segment(), [0]) for store in stores]
    query = tuple((word,) for word in WORDS)
    question = Question(query, query, ("any",), 10)
    for order in ORDERS:
        expected = Oracle({store.fingerprint: store for store in stores}, ["a.md"], order).best(question)
        for segments in ([combine(parts)], [combine(parts[:20]), combine(parts[20:])]):
            sections = Corpus(segments, names).sections
            for thrift in (Thrift(), Thrift(0, 50), Thrift(0, 200)):
                assert _best(sections, question, order, thrift) == expected
                for section in sections:
                    rows = Matching(section.segment, thrift=thrift).best("any", query, 10, 0.0).rows.tolist()
                    assert rows == sorted(rows)


# --------------------------------------------------------------------------- what is left out


def _segment(model: Model, *records: bytes) -> Segment:
    """Return a segment of one store, whose records are of the given words."""
    return _store(model, 0, [("a.md", [], record.split()) for record in records]).segment()


def test_rows_that_cannot_win_are_not_scored(model: Model) -> None:
    segment = _segment(model, *[b"the of"] * 50, b"the of whale", b"whale", b"whale the the of ahab")
    words = [(word,) for word in WORDS]
    thrifty = Matching(segment, thrift=ALWAYS)
    whole = thrifty.tier("any", words)
    assert len(whole.rows) == 53
    for limit, rows in ((1, [52]), (2, [51, 52]), (3, [50, 51, 52])):
        found = thrifty.best("any", words, limit, 0.0)
        assert found.rows.tolist() == rows
        assert found.scores.tolist() == whole.scores[rows].tolist()
    # Only by words that are in all rows can a fourth be told from the others.
    assert len(thrifty.best("any", words, 4, 0.0).rows) == 53
    # By default it takes more postings than these.
    assert len(Matching(segment).best("any", words, 1, 0.0).rows) == 53


def test_rows_of_a_score_that_others_have_reached_are_not_scored(model: Model) -> None:
    segment = _segment(model, *[b"the of"] * 9, b"the whale", b"whale ahab ship")
    words = [(word,) for word in WORDS]
    matching = Matching(segment, thrift=ALWAYS)
    scores = sorted(matching.tier("any", words).scores.tolist(), reverse=True)
    assert matching.best("any", words, 5, scores[0] * 2).rows.tolist() == []
    assert matching.best("any", words, 5, scores[0]).rows.tolist() == [10]
    assert matching.best("any", words, 5, scores[1]).rows.tolist() == [9, 10]


def test_all_that_tie_with_the_last_are_kept(model: Model) -> None:
    segment = _segment(model, *[b"the of"] * 20, *[b"the of whale"] * 6, b"ahab whale")
    words = [(word,) for word in WORDS]
    for limit in (2, 3, 7):
        assert Matching(segment, thrift=ALWAYS).best("any", words, limit, 0.0).rows.tolist() == [
            *range(20, 27)
        ]


def test_rows_that_are_no_hits_do_not_count_as_found(model: Model) -> None:
    segment = _segment(model, *[b"the of"] * 20, b"whale ahab", b"whale", b"whale ship", b"ship")
    rows = np.ones(segment.size, np.bool_)
    rows[[20, 22]] = False
    words = [(word,) for word in WORDS]
    found = Matching(segment, rows=rows, thrift=ALWAYS).best("any", words, 2, 0.0)
    assert found.rows.tolist() == [21, 23]


def test_rows_of_better_tiers_leave_room_for_others(model: Model) -> None:
    store = _store(
        model,
        0,
        [
            ("a.md", [], text.split())
            for text in (*[b"the of"] * 20, *[b"whale ahab"] * 3, b"whale", b"whale the", b"ahab of")
        ],
    )
    names = {store.fingerprint: "store"}
    sections = Corpus([store.segment()], names).sections
    query = tuple((word,) for word in (b"whale", b"ahab"))
    for order in ORDERS:
        for limit in range(3, 7):
            question = Question(query, query, TIERS, limit)
            expected = Oracle({"store": store}, ["a.md"], order).best(question)
            assert len(expected) == limit
            assert _best(sections, question, order, ALWAYS) == expected
