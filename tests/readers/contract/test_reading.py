"""Promises of reading and grep, tried on every reader."""

from __future__ import annotations

import pytest

from collated_readers import (
    Budget,
    Pattern,
    Query,
    Reader,
    RequestError,
    StoreError,
)
from collated_readers.opening import StoreConnection
from collated_readers.registry import READERS
from collated_readers.single import lexical

each_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.format))


@each_reader
def test_every_hit_can_be_read_and_an_unknown_id_is_the_requests_fault(
    reader: Reader, db: StoreConnection
) -> None:
    for one in lexical(reader, db, Query("zebra", limit=50)):
        reading = reader.read(db, one.id, 1)
        assert reading.record.id == one.id
        assert one.id not in {record.id for record in reading.context}
        assert reader.neighbours(db, one.id, 0, 0).records == (reading.record,)
    for ask_for in (
        lambda: reader.read(db, "no such id", 0),
        lambda: reader.neighbours(db, "no such id", 1, 1),
    ):
        with pytest.raises(RequestError) as caught:
            ask_for()
        assert caught.value.code == "unknown_id"
        assert caught.value.suggestion


@each_reader
def test_grep_comes_in_id_order_and_says_when_there_is_more(reader: Reader, db: StoreConnection) -> None:
    whole = reader.grep(db, Pattern("ZEBRA", limit=100), Budget.lasting(30))
    assert not whole.is_truncated
    ids = [match.id for match in whole.matches]
    assert ids == sorted(ids)
    assert len(ids) > 3
    for limit in (1, 2, len(ids) - 1):
        part = reader.grep(db, Pattern("zebra", limit=limit), Budget.lasting(30))
        assert (part.matches, part.is_truncated) == (whole.matches[:limit], True)
    assert not reader.grep(db, Pattern("zebra", limit=len(ids)), Budget.lasting(30)).is_truncated


@each_reader
@pytest.mark.parametrize("text", ["", "x" * 201])
def test_a_pattern_has_1_to_200_characters(reader: Reader, db: StoreConnection, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        reader.grep(db, Pattern(text), Budget.lasting(30))
    assert caught.value.code == "pattern_rejected"


@each_reader
def test_grep_ends_with_its_budget(reader: Reader, db: StoreConnection) -> None:
    with pytest.raises(StoreError) as caught:
        reader.grep(db, Pattern("zebra"), Budget.lasting(0))
    assert caught.value.code == "deadline_exceeded"


@each_reader
def test_the_table_of_contents_names_the_documents(reader: Reader, db: StoreConnection) -> None:
    assert "second.md" in reader.index(db, None)
    assert reader.index(db, "") == reader.index(db, None)
    assert "second.md" in reader.index(db, "sec")
    assert "first.md" not in reader.index(db, "sec")
