"""Fusing, weighing and ordering: pure, so tried on made-up lists."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from collated_readers.codebase_index.ranking.found import Found, Source
from collated_readers.codebase_index.ranking.fusing import fused
from collated_readers.codebase_index.ranking.query import Weights, asked_of
from collated_readers.codebase_index.ranking.reranking import first_of_files, reranked
from collated_readers.codebase_index.ranking.roles import is_test, prior_of

SOURCES: tuple[Source, ...] = ("text", "symbol", "path")
WEIGHTS = Weights(text=1.0, symbol=0.5, path=0.25)


def _found(source: Source = "text", path: str = "src/a.py", line: int = 1, **columns: Any) -> Found:
    return replace(Found(source, path, 1, line, line + 5, 0.0, is_generated=False), **columns)


def _list(source: Source) -> st.SearchStrategy[list[Found]]:
    def made(path: str, line: int, callers: int) -> Found:
        return _found(source, path, line, callers=callers)

    one = st.builds(
        made,
        st.sampled_from(["a.py", "src/a.py", "src/parser.py", "tests/test_a.py", "docs/a.md"]),
        st.integers(-(2**62), 2**62) | st.integers(1, 200),
        st.integers(0, 2**62),
    )
    return st.lists(one, max_size=12)


lists = st.fixed_dictionaries({source: _list(source) for source in SOURCES})


@given(lists)
def test_every_place_is_there_once(made: dict[Source, list[Found]]) -> None:
    found = fused(made, WEIGHTS)
    places = [(one.path, (max(one.line_start, 1) - 1) // 40) for one in found]
    every = {(one.path, (max(one.line_start, 1) - 1) // 40) for each in made.values() for one in each}
    assert len(places) == len(set(places))
    assert set(places) == every
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


@given(lists, st.sampled_from(["parser", "test a parser", "architecture of a", "where is src/a.py?"]))
def test_a_score_is_a_number_and_the_best_are_first(made: dict[Source, list[Found]], text: str) -> None:
    found = reranked(fused(made, WEIGHTS), asked_of(text))
    assert all(math.isfinite(one.score) for one in found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    first = first_of_files(found)
    files = list(dict.fromkeys(one.path for one in found))
    assert [one.path for one in first[: len(files)]] == files
    assert sorted(map(repr, first)) == sorted(map(repr, found))


def test_lists_that_agree_on_a_place_count_more_than_those_that_agree_on_a_file() -> None:
    text, near, far = _found("text", line=1), _found("symbol", line=30), _found("symbol", line=100)
    (together,) = fused({"text": [text], "symbol": [near], "path": []}, WEIGHTS)
    assert (together.source, together.score) == ("symbol", 1.5)
    apart = fused({"text": [text], "symbol": [far], "path": []}, WEIGHTS)
    assert [(one.source, round(one.score, 9)) for one in apart] == [("text", 1.2), ("symbol", 0.9)]


def test_a_list_counts_once_for_a_place_by_its_first_there() -> None:
    first, second, other = _found(line=1), _found(line=2), _found(path="b.py")
    found = fused({"text": [first, second, other], "symbol": [], "path": []}, WEIGHTS)
    assert [(one.path, one.line_start, one.score) for one in found] == [
        ("src/a.py", 1, 1.0),
        ("b.py", 1, 60 / 62),
    ]


def _added(text: str, **columns: Any) -> float:
    (one,) = reranked([_found(**columns)], asked_of(text))
    return round(one.score, 6)


@pytest.mark.parametrize(
    ("text", "columns", "added"),
    [
        ("zebra", {}, 0.08),  # code
        ("zebra", {"path": "a.py"}, 0.0),
        ("zebra", {"path": "docs/a.py"}, -0.20),
        ("zebra", {"path": "tests/a.py"}, -0.21),
        ("zebra", {"is_generated": True}, 0.08 - 0.15),
        ("test", {"path": "lib/test_a.py"}, 0.05 + 0.05),
        ("parser", {"path": "parser.py"}, 0.05 + 0.20),
        ("zebra", {"name": "zebra", "kind": "function", "is_exact": True}, 0.08 + 0.05 + 0.20 + 0.05),
        ("load zebra", {"name": "load_zebra"}, 0.08 + 1.8),
        ("load big zebra", {"name": "load_zebra"}, 0.08 + 0.9),
        ("load zebra", {"path": "tests/a.py", "name": "load_zebra"}, -0.21 + 0.9),
        ("zebra", {"callers": 1}, 0.08 + 0.03 * math.log(2)),
        ("zebra", {"callers": 10**9}, 0.08 + 0.08),
        ("zebra", {"uses": 1}, 0.08 + 0.015 * math.log(2)),
        ("zebra", {"uses": 10**9}, 0.08 + 0.04),
        ("zebra architecture", {"callees": 1}, 0.08 + 0.015 * math.log(2)),
    ],
)
def test_names_callers_and_paths_add_to_a_score(text: str, columns: dict[str, Any], added: float) -> None:
    assert _added(text, **columns) == round(added, 6)


CODE, TEST, PROSE, LEAST, NONE = 0.08, -0.06, -0.20, -0.25, 0.0


@pytest.mark.parametrize(
    ("path", "prior"),
    [
        *((path, CODE) for path in ("src/a.py", "a/Makefile", "a/web.Dockerfile", "lib/a", "SRC\\A.PY")),
        *((path, TEST) for path in ("tests/a.py", "a/test_b.py", "a/b_test.go", "a/b.spec.ts", "a/e2e/b.js")),
        *((path, PROSE) for path in ("docs/a.py", "a/b.md", "a/LICENSE", "a/readme.txt")),
        *(
            (path, LEAST)
            for path in ("vendor/a.py", "a/b.min.js", "a/b.generated.ts", "a/b.map", "build/x/a")
        ),
        *((path, LEAST) for path in (".claude/a.py", "a/b.patch", "a/b.po", "lang/en.json", "locales/pt-BR")),
        *((path, NONE) for path in ("a.py", "README.md", "a/b.bin", "contest/b")),
        *((path, CODE) for path in (".github/a.yml", "a/latest.py", "builder/a.py", "lang/parser.py")),
    ],
)
def test_a_file_has_a_role_by_its_path(path: str, prior: float) -> None:
    assert prior_of(path, is_about_tests=False) == prior


def test_tests_are_wanted_where_they_are_asked_for() -> None:
    assert prior_of("tests/a.py", is_about_tests=True) > 0
    assert is_test("tests/a.py")
    assert not is_test("src/contest.py")
