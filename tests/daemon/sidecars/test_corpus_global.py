"""Ranked by summed statistics, many stores answer as one store that holds all their documents does."""

from __future__ import annotations

import tarfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from collated.merge import merge_contract, merge_fused, merge_global
from collated.sidecars.combining import combine
from collated.sidecars.corpus import Addressed, Corpus, Question, best, lists, summed
from collated.sidecars.segment import Segment
from collated_readers import Query, Ranked
from collated_readers.contextpull import ContextPull

if TYPE_CHECKING:
    from tests.daemon.sidecars.conftest import Drawn, Grouped, Library, OpenLibrary

STORES = ("a", "a-b", "a.b", "ab", "b")  # `a-b/` and `a.b/` come before `a/`, though `a` is before both
WHOLE = "the one"
READER = ContextPull()
SLOW = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
QUICK = settings(
    SLOW, derandomize=True, phases=[Phase.generate]
)  # to make stores again and again takes minutes

Documents = Mapping[str, Mapping[str, str]]


def _whole(documents: Documents) -> dict[str, str]:
    return {f"{store}/{path}": text for store, texts in documents.items() for path, text in texts.items()}


def _best(parts: Sequence[Sequence[Addressed]], question: Question) -> list[tuple[str, Ranked]]:
    """Return what several formats' segments give together."""
    matchings = [[section.matching() for section in part] for part in parts]
    statistics = summed([(each, question) for each in matchings])
    found: dict[str, list[Ranked]] = {}
    for part, each in zip(parts, matchings, strict=True):
        for matching in each:
            matching.use(statistics)
        for store, hit in best(part, each, question, "global"):
            found.setdefault(store, []).append(hit)
    return merge_global(found, question.limit)


def _expected(library: Library, shown: Collection[str], query: Query, loose: Query) -> list[Ranked]:
    """Return the list of the one store, of documents of the stores *shown*."""
    entries = query.within or ("*",)
    within = tuple(f"{store}/{entry}" for store in sorted(shown) for entry in entries)
    if not within:
        return []
    return library.own(WHOLE, replace(query, within=within), replace(loose, within=within))


def _check(
    library: Library,
    parts: Sequence[Sequence[Addressed]],
    shown: Collection[str],
    asked: tuple[Query, Query],
) -> None:
    query, loose = asked
    matches = READER.path_matcher(query.within)
    if matches:
        parts = [[each.within(query.within, matches) for each in part] for part in parts]
    for limit in (1, 2, 3, 5, query.limit, 50):
        whole = replace(query, limit=limit)
        found = _best(parts, library.question(whole, loose))
        expected = _expected(library, shown, whole, loose)
        as_one = [(f"{store}/{hit.id}", hit.tier, hit.rank) for store, hit in found]
        assert as_one == [(hit.id, hit.tier, hit.rank) for hit in expected], asked
        for store, hit in found:
            segment = library.segments[store]
            assert segment.arrays["locators"][segment.ids().index(hit.id.encode())] == hit.row


def _lent(library: Library, names: Collection[str], asked: tuple[Query, Query]) -> list[Addressed]:
    """Return the stores called *names* as they are when none is in a segment."""
    terms = sorted({term for query in asked for phrase in READER.phrases(query) for term in phrase})
    segments = [library.lent(name, terms) for name in sorted(names)]
    return Corpus(segments, library.names).sections


def _some(data: st.DataObject, names: Collection[str]) -> set[str]:
    return data.draw(st.sets(st.sampled_from(sorted(names))))


def _compare(open_library: OpenLibrary, grouped: Grouped, drawn: Drawn, data: st.DataObject) -> None:
    documents = data.draw(drawn.stores(STORES, 2))
    asked_of = _some(data, documents) or set(documents)
    one = _whole({name: documents[name] for name in asked_of})
    with open_library({**documents, WHOLE: one}) as library:
        lenders = _some(data, asked_of)
        segments = [segment for name, segment in library.segments.items() if name not in {*lenders, WHOLE}]
        corpus = Corpus(grouped(data, segments), library.names) if segments else Corpus([], {})
        for text in [None] * 5 + [" ".join(drawn.WORDS * 15)]:
            query = Query(
                data.draw(drawn.query) if text is None else text,
                data.draw(drawn.within),
                data.draw(st.integers(1, 50)),
            )
            loose = READER.loosened(query, _some(data, ("a", "to", "be")), 2)
            sections = [*corpus.addressed(asked_of), *_lent(library, lenders, (query, loose))]
            shown = _some(data, asked_of) if data.draw(st.booleans()) else asked_of
            sections = [each.showing(shown) for each in sections] if shown != asked_of else sections
            cut = data.draw(st.integers(0, len(sections)))
            _check(library, [sections[:cut], sections[cut:]], shown, (query, loose))


@settings(QUICK, max_examples=7)
@given(data=st.data())
def test_many_stores_answer_as_one_that_holds_all(
    open_library: OpenLibrary, grouped: Grouped, drawn: Drawn, data: st.DataObject
) -> None:
    _compare(open_library, grouped, drawn, data)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(SLOW, max_examples=50)
@given(data=st.data())
def test_many_stores_answer_as_one_that_holds_all_at_length(
    open_library: OpenLibrary, grouped: Grouped, drawn: Drawn, data: st.DataObject
) -> None:
    _compare(open_library, grouped, drawn, data)


def test_exact_ties_are_ordered_as_in_the_one_store(open_library: OpenLibrary) -> None:
    text = "\n\n".join(f"# Part {'i' * (number + 1)}\n\nzebra" for number in range(12))  # #10 before #2
    documents: Documents = {name: {"a.md": text, "a/b.md": text} for name in STORES}
    with open_library({**documents, WHOLE: _whole(documents)}) as library:
        segments = [library.segments[name] for name in STORES]
        sections = Corpus([combine([(each, [0]) for each in segments])], library.names).sections
        _check(library, [sections], STORES, (Query("zebra", limit=50), Query("zebra")))
        hits = _best([sections], library.question(Query("part zebra", limit=50)))
        assert [store for store, _ in hits if hits[0][1].rank == _.rank][:2] == ["a-b", "a-b"]


# --------------------------------------------------------------------------- real documents

_PROJECTS = ("uvicorn", "httpx", "pdm", "ruff", "helix")
_QUERIES = (
    *("ssl", "install", "timeout", "python", "the", "configuration file", "how do I disable a rule"),
    *("keymap", "--no-cache", "--reload", "lockfile", "line-length", "http/2", "event loop", "a", "of the"),
    *(
        "proxy environment variables",
        "connection pool limits",
        "pyproject.toml",
        "pyproject.toml [tool.ruff]",
    ),
    *("to be to be", "the the", "what is the default", "per-file-ignores", "E501", "async client", "x²"),
    *("café", "日本語", "nosuchwordanywhere", "nosuchwordanywhere the", "python 3.11", "the command line"),
    *("select multiple cursors", "graceful shutdown", "workers", "cli options", "virtual environment"),
    *("which version of python does it need", "e.g.", "i.e. the", "github.com", "note", "1", "0.1.0"),
)


@pytest.fixture(scope="module")
def documentation(shared: Path) -> dict[str, dict[str, str]]:
    """The documents of some projects, by project and path."""
    documents: dict[str, dict[str, str]] = {name: {} for name in _PROJECTS}
    with tarfile.open(shared / "data" / "docs" / "docs.tar.xz") as archive:
        for member in archive:
            project, _, path = member.name.removeprefix("./").partition("/")
            if project in documents and path.endswith(".md") and (file := archive.extractfile(member)):
                documents[project][path] = file.read().decode("utf-8", errors="replace")
    assert all(documents.values())
    return documents


def _arrangements(segments: Sequence[Segment]) -> list[list[Segment]]:
    pairs = [combine([(each, [0]) for each in segments[:2]]), *segments[2:]]
    nested = [combine([(pairs[0], [1, 0]), *((each, [0]) for each in pairs[1:])])]
    return [list(segments), pairs, nested]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_real_documents_are_ranked_as_sqlite_ranks_them(
    open_library: OpenLibrary, documentation: dict[str, dict[str, str]]
) -> None:
    long = " ".join(documentation["pdm"]["index.md"].split()[:300])
    with open_library({**documentation, WHOLE: _whole(documentation)}, max_chars=2000) as library:
        arranged = _arrangements([library.segments[name] for name in _PROJECTS])
        for text in [*_QUERIES, long]:
            query = Query(text, limit=50)
            own = {name: library.own(name, query) for name in _PROJECTS}
            for segments in arranged:
                sections = Corpus(segments, library.names).sections
                _check(library, [sections], _PROJECTS, (query, query))
                matchings, question = [each.matching() for each in sections], library.question(query)
                assert best(sections, matchings, question, "contract") == merge_contract(own, 50), text
                assert merge_fused(lists(sections, matchings, question), 50) == merge_fused(own, 50), text
            _check(library, [_lent(library, _PROJECTS, (query, query))], _PROJECTS, (query, query))
