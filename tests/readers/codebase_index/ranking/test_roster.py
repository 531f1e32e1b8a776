"""Names in one text are found as SQLite's LIKE and `key_of` find them one by one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.codebase_index.ranking.roster import roster_of
from collated_readers.codebase_index.words import key_of
from collated_readers.opening import StoreConnection

CodeStore = Callable[[str], StoreConnection]

# Letters of other case, some that become others when it is folded, what stands between parts, and line ends.
LETTERS = "aAbBsSkK1_-.\n ßſ\u212aéÉ\u00a0"
names = st.lists(st.text(LETTERS, max_size=6), max_size=12)
words = st.text("abskéß1_-", min_size=1, max_size=3)


def _store(every: list[str] | list[str | bytes | float | None]) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE symbols (id INTEGER PRIMARY KEY, name)")
    db.executemany("INSERT INTO symbols (name) VALUES (?)", [(name,) for name in every])
    return db


def _like(db: sqlite3.Connection, word: str) -> list[int]:
    pattern = f"%{word.replace('_', '!_')}%"
    return [row for (row,) in db.execute("SELECT id FROM symbols WHERE name LIKE ? ESCAPE '!'", (pattern,))]


@given(names, words)
def test_names_with_a_word_are_those_that_like_finds(every: list[str], word: str) -> None:
    with closing(_store(every)) as db:
        roster = roster_of(db)
        assert len(roster) == len(every)
        assert sorted(roster.having(word)) == _like(db, word)


@given(names, st.text(LETTERS, min_size=1, max_size=6))
def test_names_with_a_key_are_those_that_have_it(every: list[str], name: str) -> None:
    with closing(_store([*every, name])) as db:
        found = sorted(roster_of(db).called(key)) if (key := key_of(name)) else []
    assert found == [row for row, each in enumerate([*every, name], 1) if key and key_of(each) == key]


@pytest.mark.parametrize("word", ["get", "command", "_", "x", "zzz"])
def test_a_real_store_s_names_are_found(code_store: CodeStore, word: str) -> None:
    db = code_store("typer/index.sqlite")
    assert sorted(roster_of(db).having(word)) == sorted(_like(db, word))


def test_what_is_no_name_is_nobody_s() -> None:
    with closing(_store(["a", None, b"a", 1.5, "a\0b", "", "b"])) as db:
        roster = roster_of(db)
        assert (len(roster), roster.having("a"), roster.called("b")) == (3, [1], [7])
    with closing(_store([])) as db:
        assert roster_of(db).having("a") == []


def test_names_that_are_no_utf_8_hide_no_others() -> None:
    with closing(_store(["ab"])) as db:
        db.execute("INSERT INTO symbols (name) VALUES (CAST(x'61ff' AS TEXT)), ('éa')")
        assert roster_of(db).having("a") == [1, 2, 3]
        assert roster_of(db).called("ab") == [1]
        assert roster_of(db).called("éa") == [3]
