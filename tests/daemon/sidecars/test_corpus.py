"""The best of many stores by arrays is what merging their own lists gives, however they are combined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from collated.merge import merge_contract, merge_fused
from collated.sidecars.combining import combine
from collated.sidecars.corpus import Addressed, Corpus, Question, best, lists
from collated.sidecars.segment import Segment
from collated_readers import Query

if TYPE_CHECKING:
    from tests.daemon.sidecars.conftest import Drawn, Grouped, Library, Model, OpenLibrary

STORES = ("a", "a-b", "a.b", "ab", "b")
SLOW = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
QUICK = settings(
    SLOW, derandomize=True, phases=[Phase.generate]
)  # to make stores again and again takes minutes


def _among(data: st.DataObject, names: Collection[str]) -> set[str]:
    return data.draw(st.sets(st.sampled_from(sorted(names))) if names else st.just(set()))


# --------------------------------------------------------------------------- against SQLite


def _check(
    library: Library, sections: Sequence[Addressed], names: Collection[str], asked: tuple[Query, Query]
) -> None:
    """Compare with the lists of the stores called *names*; *asked* is a query, and its words in `any`."""
    query, loose = asked
    matches = library.reader.path_matcher(query.within)
    sections = [each.within(query.within, matches) if matches else each for each in sections]
    matchings = [each.matching() for each in sections]
    for limit in (1, 2, 3, 5, query.limit, 50):
        whole = replace(query, limit=limit)
        question = library.question(whole, loose)
        own = {name: library.own(name, whole, loose) for name in names}
        assert best(sections, matchings, question, "contract") == merge_contract(own, limit), asked
        given = lists(sections, matchings, question)
        assert merge_fused(given, limit) == merge_fused(own, limit), asked
        assert all(own[name][: len(hits)] == hits for name, hits in given.items()), asked


def _asked(
    drawn: Drawn, data: st.DataObject, library: Library, text: str | None = None
) -> tuple[Query, Query]:
    words = data.draw(drawn.query) if text is None else text
    query = Query(words, data.draw(drawn.within), data.draw(st.integers(1, 50)))
    ignored = data.draw(st.sets(st.sampled_from(["a", "to", "be", "zebra"]), max_size=2))
    return query, library.reader.loosened(query, ignored, 2)


def _compare(open_library: OpenLibrary, grouped: Grouped, drawn: Drawn, data: st.DataObject) -> None:
    with open_library(data.draw(drawn.stores(STORES))) as library:
        twice = _among(data, library.stores)
        every = [*library.segments.values(), *(library.segments[name] for name in sorted(twice))]
        gone = _among(data, library.stores)
        names = {own: name for own, name in library.names.items() if name not in gone}
        corpus = Corpus(grouped(data, every), names)
        assert corpus.names == set(names.values())
        for text in [None] * 6 + [" ".join(drawn.WORDS * 15)]:
            chosen = _among(data, library.stores) | {"unknown"} if data.draw(st.booleans()) else corpus.names
            asked = _asked(drawn, data, library, text)
            _check(library, corpus.addressed(chosen), corpus.names & chosen, asked)


@settings(QUICK, max_examples=8)
@given(data=st.data())
def test_the_best_of_all_stores_is_what_merging_their_lists_gives(
    open_library: OpenLibrary, grouped: Grouped, drawn: Drawn, data: st.DataObject
) -> None:
    _compare(open_library, grouped, drawn, data)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(SLOW, max_examples=50)
@given(data=st.data())
def test_the_best_of_all_stores_is_what_merging_their_lists_gives_at_length(
    open_library: OpenLibrary, grouped: Grouped, drawn: Drawn, data: st.DataObject
) -> None:
    _compare(open_library, grouped, drawn, data)


# --------------------------------------------------------------------------- which store is where


@pytest.fixture
def stores(model: Model) -> Callable[..., Segment]:
    """`stores("x", "y")` makes a segment of stores with these fingerprints, of one record each."""

    def make(*fingerprints: str) -> Segment:
        records = {"a.md#0": ("a.md", [{0: b"whale"}])}
        parts = [model.Store(each, records).segment() for each in fingerprints]
        return combine([(part, [0]) for part in parts])

    return make


WHALE = Question(((b"whale",),), ((b"whale",),), ("any",), 50)


def _stores(sections: Sequence[Addressed]) -> list[str]:
    found = best(sections, [each.matching() for each in sections], WHALE, "contract")
    return [store for store, _ in found]


def _slots(section: Addressed) -> list[bool] | None:
    return None if section.slots is None else section.slots.tolist()


def test_a_store_that_is_in_two_segments_counts_in_the_first(stores: Callable[..., Segment]) -> None:
    corpus = Corpus(
        [stores("x", "y"), stores("y", "z"), stores("z"), stores("x", "x")], {"x": "1", "y": "2", "z": "3"}
    )
    assert [list(each.names) for each in corpus.sections] == [["1", "2"], [None, "3"]]
    assert [_slots(each) for each in corpus.sections] == [None, [False, True]]
    assert corpus.names == {"1", "2", "3"}
    assert _stores(corpus.sections) == ["1", "2", "3"]

    same = Corpus([stores("x", "x")], {"x": "1"})
    assert _stores(same.sections) == ["1"]
    assert [each.matching().totals() for each in same.sections] == [(1, 1)]


def test_a_store_whose_contents_have_changed_is_in_no_segment(stores: Callable[..., Segment]) -> None:
    corpus = Corpus([stores("old x", "y"), stores("z")], {"new x": "1", "y": "2"})
    assert corpus.names == {"2"}
    assert _stores(corpus.sections) == ["2"]
    assert _stores(corpus.addressed({"1", "2"})) == ["2"]
    assert corpus.addressed({"1"}) == []
    assert Corpus([], {"x": "1"}).sections == []


def test_only_segments_of_stores_that_are_asked_are_looked_at(stores: Callable[..., Segment]) -> None:
    corpus = Corpus([stores("x", "y"), stores("z")], {"x": "1", "y": "2", "z": "3"})
    assert _stores(corpus.addressed({"2"})) == ["2"]
    assert len(corpus.addressed({"2"})) == 1
    assert _stores(corpus.addressed({"1", "3"})) == ["1", "3"]
    assert _stores(corpus.addressed({"1", "2", "3", "4"})) == ["1", "2", "3"]
    assert _stores(corpus.addressed(set())) == []
    assert _stores(corpus.sections) == ["1", "2", "3"]  # none of it is remembered


def test_filters_narrow_each_other(stores: Callable[..., Segment]) -> None:
    (section,) = Corpus([stores("x", "y", "z")], {"x": "1", "y": "2", "z": "3"}).sections
    shown = section.showing({"1", "2"})
    assert _stores([shown]) == ["1", "2"]
    left = shown.among({"2", "3"})
    assert left is not None
    assert _stores([left]) == ["2"]
    assert _stores([shown.within(("a.md",), lambda path: path == "a.md")]) == ["1", "2"]
    assert _stores([shown.within(("b.md",), lambda path: path == "b.md")]) == []
    assert _stores([section.within(("b.md",), lambda path: path == "b.md").showing({"1"})]) == []
    assert _stores([section.showing({"2"}).showing({"1", "2"})]) == ["2"]
    assert shown.shown(np.arange(3)).tolist() == [0, 1]
    assert left.shown(np.arange(3)).tolist() == [1]
    assert section.shown(np.arange(3)).tolist() == [0, 1, 2]


def test_exact_ties_are_ordered_by_id_and_then_by_store(model: Model) -> None:
    ids = {"x": "dca", "y": "ba", "z": "dab"}
    stores = {
        own: model.Store(own, {each: ("a.md", [{0: b"whale"}]) for each in here}) for own, here in ids.items()
    }
    names = {"x": "3", "y": "1", "z": "2"}
    expected = sorted((each, names[own]) for own, here in ids.items() for each in here)
    parts = [each.segment() for each in stores.values()]
    for segments in (parts, [combine([(part, [0]) for part in parts])]):
        sections = Corpus(segments, names).sections
        for limit in range(1, len(expected) + 1):
            question = replace(WHALE, limit=limit)
            found = best(sections, [each.matching() for each in sections], question, "contract")
            assert [(hit.id, store) for store, hit in found] == expected[:limit]


def test_no_store_at_all_gives_nothing() -> None:
    assert best([], [], WHALE, "contract") == []
    assert lists([], [], WHALE) == {}
