"""A store's own list: a prefix of a longer one, each record once, and the same again, whatever the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import Budget, OwnRanking, Query, Ranked, StoreError
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.matching.within import path_matcher_of
from collated_readers.opening import StoreConnection, ask

CodeStore = Callable[[str], StoreConnection]
Altered = Callable[..., StoreConnection]

READER = CodebaseIndex()
TYPER = "typer/index.sqlite"
QUERIES = (
    *("get_command", "how does the completion get installed for zsh", "rich_utils.py", "class Option method"),
    *(
        "schema",
        "typer.main Typer.command",
        "test",
        "the of and",
        "a OR b",
        "zzzznotfound",
        "",
        "delete config",
    ),
    *('"', "%", "_", "x" * 5_000, "\0", "get_%", " ".join(f"w{number}" for number in range(500))),
)


def _own(db: StoreConnection, text: str, within: tuple[str, ...] = (), limit: int = 10) -> list[Ranked]:
    def own(db: sqlite3.Connection) -> list[Ranked]:
        return READER.own(db, Query(text, within, limit))

    return ask(db, own, Budget.lasting(60))


def test_the_reader_promises_its_own_ranking() -> None:
    assert isinstance(READER, OwnRanking)


@pytest.mark.parametrize("text", QUERIES)
def test_a_list_begins_every_longer_one(code_store: CodeStore, text: str) -> None:
    db = code_store(TYPER)
    longest = _own(db, text, limit=200)
    assert len({one.id for one in longest}) == len(longest)
    assert [one.tier for one in longest] == sorted((one.tier for one in longest), reverse=True)
    for limit in (1, 2, 3, 7, 10, 11, 49, 50, 199):
        assert _own(db, text, limit=limit) == longest[:limit]


word = st.sampled_from(
    [
        "get",
        "command",
        "completion",
        "Typer",
        "rich_utils",
        "class",
        "how",
        "ñandú",
        "id",
        "test",
        "config",
        "?",
    ]
)


def test_a_list_is_the_same_again_and_within_all_that_there_is(code_store: CodeStore) -> None:
    db = code_store(TYPER)

    @given(st.lists(word, max_size=5).map(" ".join), st.integers(1, 30))
    def holds(text: str, limit: int) -> None:
        found = _own(db, text, limit=limit)
        assert _own(db, text, ("*",), limit) == found  # every path passes
        assert _own(db, text, limit=limit + 1)[:limit] == found

    holds()


@pytest.mark.parametrize("text", ["get_command", "completion script", "how does the prompt work", "typer"])
@pytest.mark.parametrize("within", [("typer/_click",), ("typer/c*.py", "README.md"), ("nowhere",)])
def test_only_what_passes_the_filter_is_found(
    code_store: CodeStore, text: str, within: tuple[str, ...]
) -> None:
    db = code_store(TYPER)
    accepts = path_matcher_of(within)
    assert accepts is not None
    found = _own(db, text, within, 50)
    assert all(accepts(one.id.rsplit(":", 1)[0]) for one in found)
    assert bool(found) == (within != ("nowhere",))


def test_what_is_called_so_comes_first_and_then_the_program_s_order(code_store: CodeStore) -> None:
    found = _own(code_store(TYPER), "getParamsFromFunction")
    assert (found[0].id, found[0].tier, found[0].rank) == ("typer/utils.py:107-186", "symbol", -2.0)
    assert {one.tier for one in found[1:]} == {"any"}


def test_a_method_is_shown_by_the_chunk_around_it_once(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    found = _own(db, "resolve command", limit=50)
    assert found[0].id == "typer/core.py:1099-1329"
    hits = ask(db, lambda db: READER.hits(db, Query("resolve command"), found), Budget.lasting(60))
    assert [hit.id for hit in hits] == [one.id for one in found]
    assert "**resolve_command**" in hits[0].snippet
    assert any("**command**" in hit.snippet.lower() for hit in hits if hit.tier == "any")


@pytest.mark.parametrize(
    "name",
    ["883d37c", "pypi-1.7.0", "pypi-2.0.0", "pypi-2.1.0", "v1.2.1", "v1.4.0", "v1.5.0", "v4_vec64_forced"],
)
def test_every_version_has_its_own_list(code_store: CodeStore, name: str) -> None:
    found = _own(code_store(f"schema_versions/typer_{name}.sqlite"), "get_params_from_function")
    assert found[0].id.startswith("typer/utils.py:")
    assert len(found) == 10


def test_a_store_without_symbols_ranks_by_words_and_paths(code_store: CodeStore) -> None:
    db = code_store("degraded_no_grammar/typer_no_symbols.sqlite")
    assert {one.tier for one in _own(db, "get_command")} == {"any"}
    assert _own(db, "rich_utils.py")[0].id.startswith("typer/rich_utils.py:")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE symbols SET in_degree = -5, out_degree = -9",
        "UPDATE symbols SET in_degree = 9e999, out_degree = 'many'",
        "UPDATE symbols SET in_degree = x'00'",
        "UPDATE files SET is_generated = 'yes'",
        "UPDATE symbols SET line_start = -9223372036854775808, line_end = 9223372036854775807",
        "UPDATE symbols SET line_start = 9223372036854775807",
        "UPDATE symbols SET name = CAST(name AS BLOB)",
        "UPDATE symbols SET qualified = NULL",
        "UPDATE edges SET dst_name = NULL",
        "DELETE FROM files WHERE id % 2",
        "DELETE FROM symbols WHERE id % 2",
        "UPDATE chunks SET kind = 'doc'",
        "UPDATE chunks SET kind = NULL",
        "ALTER TABLE symbols DROP COLUMN in_degree",
        "ALTER TABLE symbols DROP COLUMN out_degree",
        "ALTER TABLE files DROP COLUMN is_generated",
        "UPDATE symbols SET name = name || char(0) || '!%_'",
    ],
)
def test_what_a_store_should_not_hold_changes_the_order_only(altered_store: Altered, statement: str) -> None:
    db = altered_store(statement)
    for text in ("get_command", "what calls the completion script", "architecture of main", "completion"):
        found = _own(db, text, limit=100)
        assert found
        assert _own(db, text, limit=5) == found[:5]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE symbols SET line_start = 'first'",
        "UPDATE symbols SET kind = x'00'",
        "UPDATE files SET path = CAST(path AS BLOB)",
        "UPDATE chunks SET line_start = 'first'",
        "UPDATE chunks SET line_start = -1",
    ],
)
def test_a_store_whose_values_are_of_other_types_is_damaged(altered_store: Altered, statement: str) -> None:
    db = altered_store(statement)
    with pytest.raises(StoreError) as caught:
        _own(db, "get_command", limit=100)
    assert caught.value.code == "damaged"


def test_names_that_are_null_are_passed_over(altered_store: Altered) -> None:
    db = altered_store(
        "CREATE TABLE others AS SELECT * FROM symbols",
        "DROP TABLE symbols",
        "ALTER TABLE others RENAME TO symbols",
        "UPDATE symbols SET name = NULL, in_degree = NULL WHERE id % 2",
    )
    assert len(_own(db, "get command", limit=50)) > 10


def test_secrets_stay_where_they_are(altered_store: Altered) -> None:
    secret = "sk_live_" + "4f" * 20
    db = altered_store(
        f"UPDATE chunks SET content = content || char(10) || 'api_key = \"{secret}\"'"  # noqa: S608 - ours
    )
    found = _own(db, "api_key", limit=50)
    hits = ask(db, lambda db: READER.hits(db, Query("api_key"), found), Budget.lasting(60))
    assert hits
    assert not any(secret in hit.snippet for hit in hits)
