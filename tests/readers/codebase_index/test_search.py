"""Search in code stores: names first, however they are spelt, then words; hits say where they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from collated_readers import Budget, Hit, Query, Tier
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.opening import StoreConnection, ask
from collated_readers.single import search

MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
CodeStore = Callable[[str], StoreConnection]

READER = CodebaseIndex()
TYPER = "typer/index.sqlite"


def _hits(db: StoreConnection, text: str, tier: Tier, within: tuple[str, ...] = ()) -> list[Hit]:
    query = Query(text, within, limit=1000)
    return ask(db, lambda db: READER.hits(db, query, READER.ranked(db, query, tier)), Budget.lasting(30))


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "text",
    [
        *(
            "get_params_from_function",
            "getParamsFromFunction",
            "GetParamsFromFunction",
            "get params from function",
        ),
        *(
            "get-params-from-function",
            "GET_PARAMS_FROM_FUNCTION",
            "getparamsfromfunction",
            "getParamsFromFunction()",
        ),
    ],
)
def test_a_name_finds_where_it_is_defined_and_then_where_it_is_used(code_store: CodeStore, text: str) -> None:
    hits = _hits(code_store(TYPER), text, "symbol")
    assert [(hit.id, hit.score, hit.heading_path) for hit in hits[:2]] == [
        ("typer/utils.py:107-186", 2.0, "get_params_from_function"),
        ("typer/completion.py:17-27", 1.0, "get_completion_inspect_parameters"),
    ]
    assert {hit.score for hit in hits[1:]} == {1.0}
    assert [hit.id for hit in hits[1:]] == sorted(hit.id for hit in hits[1:])
    assert all("**get_params_from_function**" in hit.snippet for hit in hits)
    assert hits[0].snippet.startswith("def **get_params_from_function**(func: ")


def test_a_method_belongs_to_the_chunk_of_its_class_and_is_shown_where_it_is_defined(
    code_store: CodeStore,
) -> None:
    hits = _hits(code_store(TYPER), "resolve_command", "symbol")
    (group,) = [hit for hit in hits if hit.id == "typer/_click/core.py:697-1113"] or [hits[0]]
    assert group.score == 2.0
    assert "def **resolve_command**(" in group.snippet


def test_a_query_that_is_no_name_finds_none(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    assert _hits(db, "where is get_params_from_function", "symbol") == []
    assert _hits(db, "nothing_is_called_so", "symbol") == []
    assert _hits(code_store("degraded_no_grammar/typer_no_symbols.sqlite"), "get_command", "symbol") == []


def test_a_name_is_found_in_words_too_by_its_other_spellings_and_parts(
    make_code_store: MakeStore, open_at: OpenAt, tmp_path: Path
) -> None:
    files = {
        "camel.txt": "let us call fooBar here",
        "snake.txt": "let us call foo_bar here",
        "part.txt": "a bar",
        "none.txt": "a foobars",
    }
    db = open_at(make_code_store(tmp_path / "store.sqlite", files))
    for text in ("fooBar", "foo_bar", "FooBar", "foo-bar"):
        found = [hit.doc for hit in _hits(db, text, "any")]
        assert set(found[:2]) == {"camel.txt", "snake.txt"}
        assert found[2:] == ["part.txt"]
    assert READER.tiers(Query("foo_bar")) == ("symbol", "any")
    assert READER.tiers(Query("foo bar")) == ("symbol", "phrase", "all", "any")


# --------------------------------------------------------------------------- words


def test_every_hit_says_where_it_stands(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    kinds: set[str] = set()
    for text in ("completion script", "shell", "how does a callback work"):
        for tier in READER.tiers(Query(text)):
            for hit in _hits(db, text, tier):
                place = re.fullmatch(r"(.+):(\d+)-(\d+)(?:#\d+)?", hit.id)
                assert place is not None
                assert (hit.doc, str(hit.line_start), str(hit.line_end)) == place.groups()
                kinds.add(hit.kind)
    assert kinds == {"symbol_body", "window", "doc"}


def test_a_snippet_is_some_words_around_what_was_found_marked(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    for tier in READER.tiers(Query("completion script"))[1:]:
        shown = r"\*\*completion[\W_]+script\*\*" if tier == "phrase" else r"\*\*(completion|script)\*\*"
        hits = _hits(db, "completion script", tier)
        assert hits
        for hit in hits:
            assert re.search(shown, hit.snippet, re.IGNORECASE), hit
            assert len(hit.snippet) < 500
            assert "\n" not in hit.snippet


def test_accents_do_not_matter_to_what_is_found_or_marked(
    make_code_store: MakeStore, open_at: OpenAt, tmp_path: Path
) -> None:
    db = open_at(make_code_store(tmp_path / "store.sqlite", {"a.txt": "ein Café und ein Résumé"}))
    for text in ("cafe resume", "café RÉSUMÉ"):
        (hit,) = _hits(db, text, "all")
        assert hit.snippet == "ein **Café** und ein **Résumé**"


def test_a_path_filter_holds_for_names_and_words(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    for tier in READER.tiers(Query("get_command")):
        every = _hits(db, "get_command", tier)
        some = _hits(db, "get_command", tier, ("typer/_click", "typer/c*.py"))
        assert {hit.doc for hit in some} == {
            hit.doc for hit in every if hit.doc.startswith(("typer/_click/", "typer/c"))
        }
        assert 0 < len(some) < len(every)


def test_secrets_are_in_no_snippet(make_code_store: MakeStore, open_at: OpenAt, tmp_path: Path) -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    db = open_at(
        make_code_store(tmp_path / "store.sqlite", {"a.py": f"zebra = 1\naws = '{key}'  # a zebra\n"})
    )
    for text in ("zebra", key, f"aws {key}"):
        for hit in search(READER, db, Query(text)).hits:
            assert key not in hit.snippet
            assert hit.snippet


def test_equal_sources_have_equal_ids_whenever_they_are_indexed(
    make_code_store: MakeStore, open_at: OpenAt, tmp_path: Path
) -> None:
    source = '"""A zebra."""\n\n\ndef zebra():\n    """A zebra."""\n'
    files = {f"{name}.py": source for name in "abc"}
    first = make_code_store(tmp_path / "first.sqlite", files)
    second = make_code_store(tmp_path / "second.sqlite", {**files, "a.py": source + "# more\n"})
    make_code_store(second, {"0.py": source, **files})  # in place: other row ids for all
    answers = [
        {hit.id for hit in search(READER, open_at(path), Query("zebra", ("a.py", "b.py", "c.py"), 50)).hits}
        for path in (first, second)
    ]
    assert answers[0] == answers[1] != set()
