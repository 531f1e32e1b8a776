"""Stores from anywhere: whatever their bytes, what comes of them is an answer or an error with a code."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from collated_readers import STORE_CODES, Budget, Pattern, Query, RequestError, StoreError
from collated_readers.book_agent import BookAgent, PrebuiltVectorStoreAdapter
from collated_readers.contract import Examined
from collated_readers.opening import StoreConnection, ask
from collated_readers.registry import identify
from collated_readers.single import search

Write = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
Rows = list[tuple[object, object, Sequence[float], object]]

Examine = Callable[[StoreConnection], Examined]

READER = BookAgent()


def _use(path: Path, manifest: Path | None) -> list[Callable[[], object]]:
    """Return what can be asked of a store, one after the other."""
    adapter = PrebuiltVectorStoreAdapter(path, manifest)
    vector = [1.0] * adapter.inspect().dimensions
    return [
        adapter.validate,
        lambda: list(adapter.iter_records()),
        lambda: adapter.search(vector, 3),
        lambda: adapter.get_record("a"),
        lambda: adapter.get_record(2),
        lambda: adapter.get_source_metadata("b"),
        adapter.close,
    ]


def _code_of(work: Callable[[], object]) -> str | None:
    try:
        work()
    except StoreError as error:
        assert error.code in STORE_CODES
        return error.code
    except RequestError as error:
        assert error.code == "record_not_found"
        return error.code
    return None


@pytest.mark.slow
@pytest.mark.parametrize("contract", ["lossless", "explicit"])
def test_damaged_files_give_codes(
    tmp_path: Path, write_bge: Write, write_explicit: Write, rows: Rows, contract: str
) -> None:
    path = tmp_path / "store.sqlite"
    if contract == "lossless":
        sound, manifest = write_bge(path, texts=("naïve zebra. ", "whale. ")).read_bytes(), None
    else:
        sound, manifest = write_explicit(path, rows).read_bytes(), path.with_suffix(".manifest.json")
    chance = random.Random(11)  # noqa: S311 - no secret
    codes: set[str | None] = set()
    for _ in range(150):
        data = bytearray(sound)
        for _ in range(chance.choice((1, 1, 2, 8, 64))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        path.write_bytes(data)
        questions: list[Callable[[], object]] = []
        codes.add(_code_of(lambda questions=questions: questions.extend(_use(path, manifest))))  # type: ignore[misc]
        codes |= {_code_of(work) for work in questions}
    assert None in codes
    assert "damaged" in codes


@pytest.mark.slow
def test_damaged_files_are_opened_and_asked_as_the_daemon_does(
    tmp_path: Path, write_bge: Write, open_at: OpenAt, examine: Examine
) -> None:
    path = write_bge(tmp_path / "store.sqlite", texts=("naïve zebra. ", "whale. "))
    sound = path.read_bytes()
    chance = random.Random(12)  # noqa: S311 - no secret
    budget = Budget.lasting(30)

    def use() -> None:
        db = open_at(path)
        reader, _ = ask(db, identify, budget)
        assert isinstance(reader, BookAgent)
        examine(db)
        ask(db, lambda db: search(READER, db, Query("zebra")), budget)
        ask(db, lambda db: READER.grep(db, Pattern("zebra"), budget), budget)
        ask(db, lambda db: READER.similar(db, [1.0] * 1024, 2, budget), budget)

    codes: set[str | None] = set()
    for _ in range(60):
        data = bytearray(sound)
        for _ in range(chance.choice((1, 2, 8))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        codes.add(_code_of(use))
    assert None in codes


@pytest.mark.parametrize(
    "source",
    [
        '{"path": "\\ud800"}',
        '{"path": "a\\u0000b"}',
        '{"path": "a\\nb", "chapter": "\\u202e"}',
        '{"path": ' + "[" * 20_000 + "]" * 20_000 + "}",
        '{"path": 1e999}',
        '{"path": ' + "9" * 10_000 + "}",
        '{"": ""}',
    ],
)
def test_a_source_may_hold_anything(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, source: str, examine: Examine
) -> None:
    db = open_at(write_explicit(tmp_path / "store.sqlite", [("a", "A zebra.", [1.0], source)]))
    assert examine(db).details["validation"] in ("valid", "invalid_source_metadata")
    (hit,) = search(READER, db, Query("zebra")).hits
    assert hit.doc == READER.read(db, "a", 0).record.doc
    hit.doc.encode()
    assert READER.index(db, None)


def test_a_file_may_have_a_name_that_is_no_text(
    tmp_path: Path, write_bge: Write, open_at: OpenAt, examine: Examine
) -> None:
    path = write_bge(tmp_path / os.fsdecode(b"b\xff\xfeok.sqlite"))
    db = open_at(path)
    examine(db)
    (hit,) = search(READER, db, Query("zebra")).hits
    assert hit.doc == "b\ufffd\ufffdok"
    with PrebuiltVectorStoreAdapter(path) as adapter:
        assert adapter.validate() == ()


def test_an_id_of_any_size_is_no_id(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, examine: Examine
) -> None:
    rows = [("x" * 5_000, "A zebra.", [1.0], None), ("y" * 4_096, "A whale.", [2.0], None)]
    db = open_at(write_explicit(tmp_path / "store.sqlite", rows))
    assert examine(db).details["unindexed"] == 1
    with pytest.raises(StoreError) as caught:
        READER.similar(db, [1.0], 1, Budget.lasting(30))
    assert caught.value.code == "invalid_record_id"


def test_a_store_in_utf_16_is_read_like_any_other(
    tmp_path: Path, write_explicit: Write, examined: OpenAt
) -> None:
    rows = [("ä", "Ein naïver Zebra 🎉", [1.0, 0.0], '{"path": "ü.md"}')]
    path = tmp_path / "store.sqlite"
    schema = "CREATE TABLE passages (identifier TEXT PRIMARY KEY, body TEXT, vector, source TEXT)"
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA encoding = 'UTF-16le'")
        made.execute("CREATE TABLE other (x)")
    db = examined(write_explicit(path, rows, schema=schema))
    (hit,) = search(READER, db, Query("zebra")).hits
    assert (hit.id, hit.doc) == ("ä", "ü.md")
    assert READER.similar(db, [1.0, 0.0], 1, Budget.lasting(30))[0].text == rows[0][1]


def test_an_endless_view_is_never_read(tmp_path: Path, write_bge: Write, open_at: OpenAt) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x"
    path = write_bge(
        tmp_path / "store.sqlite",
        "DROP TABLE metadata",
        f"CREATE VIEW metadata AS {endless} AS key, x AS value FROM n",
    )
    with pytest.raises(StoreError) as caught:
        ask(open_at(path), identify, Budget.lasting(5))
    assert caught.value.code == "unknown_format"
