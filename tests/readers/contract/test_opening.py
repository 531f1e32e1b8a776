"""Promises of opening, tried on every reader: what is recognised, and what is said of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from collated_readers import (
    Budget,
    Reader,
    StoreError,
)
from collated_readers.opening import StoreConnection, ask, tables
from collated_readers.registry import READERS, identify

MakeExample = Callable[..., StoreConnection]
OpenAt = Callable[[Path], StoreConnection]


each_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.format))


def test_a_database_that_no_reader_knows_has_an_unknown_format(tmp_path: Path, open_at: OpenAt) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE meta (key TEXT, value TEXT)")
    made.close()
    with pytest.raises(StoreError) as caught:
        ask(open_at(path), identify, Budget.lasting(30))
    assert caught.value.code == "unknown_format"


@each_reader
def test_a_reader_names_itself_and_what_it_can_do(reader: Reader) -> None:
    assert reader.format == reader.format.lower()
    assert reader.versions
    assert reader.capabilities >= {"search", "read"}


@each_reader
def test_only_the_right_reader_recognises_a_store(reader: Reader, db: StoreConnection) -> None:
    names = tables(db)
    assert [other.format for other in READERS if other.recognises(db, names)] == [reader.format]
    found, facts = ask(db, identify, Budget.lasting(30))
    assert found is reader
    assert facts.schema_version
    assert facts.documents > 0
    assert facts.records >= facts.documents


@each_reader
def test_facts_are_the_same_until_the_store_changes(reader: Reader, example: MakeExample) -> None:
    db = example()
    first = reader.open(db, tables(db))
    assert reader.open(db, tables(db)) == first
    other = example({"a.md": "# Other\n\nA zebra.\n"}, "other")
    assert reader.open(other, tables(other)).identity != first.identity
