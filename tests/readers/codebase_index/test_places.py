"""Records named by a line: what grep prints can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from collated_readers import Budget, Pattern, RequestError
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.opening import StoreConnection

CodeStore = Callable[[str], StoreConnection]

READER = CodebaseIndex()


def test_a_line_names_the_smallest_chunk_of_the_files_own_text_around_it(
    small_store: Callable[[], Any],
) -> None:
    store = small_store()
    file = store.file("a:1-9.py")
    store.chunk(file, (1, 40), "whole")
    store.chunk(file, (11, 20), "part")
    store.chunk(file, (12, 12), "derived", kind="doc")
    store.chunk(file, (15, 60), "below")
    texts = {
        line: READER.read(store.db, f"a:1-9.py:{line}", 0).record.text for line in (1, 10, 11, 12, 20, 21, 41)
    }
    assert texts == {1: "whole", 10: "whole", 11: "part", 12: "part", 20: "part", 21: "whole", 41: "below"}
    assert READER.read(store.db, "a:1-9.py:12-12", 0).record.text == "derived"
    assert READER.read(store.db, "a:1-9.py:12", 1) == READER.read(store.db, "a:1-9.py:11-20", 1)
    assert READER.neighbours(store.db, "a:1-9.py:12", 1, 1).records[1].id == "a:1-9.py:11-20"


@pytest.mark.parametrize(
    "asked", ["a.py:0", "a.py:01", "a.py:3", "a.py:9999999999", "b.py:1", "\ud800:1", "a.py:-1"]
)
def test_a_line_of_no_text_is_unknown_and_the_advice_says_how_to_ask(
    small_store: Callable[[], Any], asked: str
) -> None:
    store = small_store()
    store.chunk(store.file("a.py"), (1, 2), "text")
    assert READER.read(store.db, "a.py:1", 0).record.id == "a.py:1-2"
    for ask_for in (
        lambda: READER.read(store.db, asked, 0),
        lambda: READER.neighbours(store.db, asked, 1, 1),
    ):
        with pytest.raises(RequestError) as caught:
            ask_for()
        assert caught.value.code == "unknown_id"
        assert "path.py:12" in (caught.value.suggestion or "")


def test_every_place_that_grep_prints_is_read_with_its_line(code_store: CodeStore) -> None:
    db = code_store("typer/index.sqlite")
    found = READER.grep(db, Pattern("return ctx", limit=100), Budget.lasting(30)).matches
    assert len(found) > 3
    for match in found:
        assert match.line in READER.read(db, f"{match.doc}:{match.line_number}", 0).record.text
