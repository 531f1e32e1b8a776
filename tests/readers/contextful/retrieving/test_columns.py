"""Which columns are searched, shown and dated (retrieve.md §4, §10)."""

from __future__ import annotations

from typing import Any

import pytest

from collated_readers.contextful.model import Column, Declared
from collated_readers.contextful.retrieving.columns import (
    heading_column,
    is_identifier,
    joined,
    publication_column,
    scored_columns,
    snippet_columns,
)


def _columns(*names: str) -> list[Column]:
    return [Column(name, "VARCHAR", is_text=True) for name in names]


def _declared(**more: Any) -> Declared:
    return Declared("t", **more)


@pytest.mark.rule("identifiers-never-snippet")
@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("id", True),
        ("note_id", True),
        ("ID", True),
        ("content_hash", True),
        ("source_url", True),
        ("permalink", True),
        ("updated_at", True),
        ("date", True),
        ("pub_date", True),
        ("contact_email", True),
        ("_run_id", True),
        ("body", False),
        ("published", False),
        ("idea", False),
        ("dates", False),
    ],
)
def test_names_tell_identifiers_and_instants_from_prose(name: str, is_one: bool) -> None:
    assert is_identifier(name) is is_one


@pytest.mark.rule("snippet")
def test_labels_come_first_and_then_others_in_the_order_of_the_schema() -> None:
    columns = _columns("note_id", "zone", "thesis", "body", "title", "more")
    assert snippet_columns(columns, _declared()) == ("title", "thesis", "zone")


@pytest.mark.rule("snippet", "identifiers-never-snippet")
def test_json_numbers_and_partitions_are_not_shown() -> None:
    columns = [Column("n", "BIGINT"), Column("meta", "JSON", is_json=True), *_columns("tenant", "body")]
    assert snippet_columns(columns, _declared(partition_by=("tenant",))) == ("body",)


@pytest.mark.rule("scored-text", "snippet")
def test_declared_text_is_scored_whole_and_shown_in_part() -> None:
    columns = [*_columns("title", "a", "b", "c", "source_url"), Column("n", "INTEGER")]
    declared = _declared(retrieve_text=("n", "c", "b", "a", "title", "source_url", "gone", "a"))
    assert scored_columns(columns, declared) == ("title", "n", "c", "b", "a", "source_url")
    assert snippet_columns(columns, declared) == ("title", "a", "b")


@pytest.mark.rule("scored-text")
def test_without_a_declaration_what_is_shown_is_scored() -> None:
    columns = _columns("title", "a", "b", "c")
    assert scored_columns(columns, _declared()) == snippet_columns(columns, _declared())


@pytest.mark.rule("engine-resolved-date")
def test_the_first_column_of_six_that_is_a_date_says_when_a_row_appeared() -> None:
    dated = [Column("created_at", "TIMESTAMP WITH TIME ZONE"), *_columns("published")]
    assert publication_column(dated) == "published"
    assert publication_column([Column("published_at", "BIGINT"), *dated[:1]]) == "created_at"
    assert publication_column([Column("date", "TIMESTAMPTZ_NS")]) == "date"
    assert publication_column(_columns("title")) == "_ingested_at"


def test_cells_are_joined_without_those_that_are_null() -> None:
    assert joined(["a", None, 1.5, True, {"k": ["é"]}]) == 'a — 1.5 — true — {"k":["é"]}'


def test_the_heading_is_a_label_that_is_shown() -> None:
    assert heading_column(("title", "body")) == "title"
    assert heading_column(("body",)) is None
