"""Where chunks are, kept by file: as the statements find them that look at one place at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import StoreError
from collated_readers.codebase_index.kept import MOST_KEPT
from collated_readers.codebase_index.places import places_at, row_at
from collated_readers.codebase_index.ranking.layout import files_of
from collated_readers.opening import StoreConnection

CodeStore = Callable[[str], StoreConnection]
Altered = Callable[..., StoreConnection]

TYPER = "typer/index.sqlite"
LAST = 12
MANY = """
WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n <= {})
INSERT INTO chunks (file_id, line_start, line_end, content, token_est) SELECT 1, n, n, '', 0 FROM n"""

chunk = st.tuples(st.integers(0, LAST), st.integers(0, LAST), st.sampled_from(["doc", "window", None]))


def _statements(db: StoreConnection, files: set[int]) -> int:
    sent: list[str] = []
    db.set_trace_callback(sent.append)
    files_of(db, files)
    db.set_trace_callback(None)
    return len(sent)


def test_every_line_and_every_chunk_is_where_the_store_has_it(small_store: Callable[[], Any]) -> None:
    @given(st.lists(st.lists(chunk, max_size=8), min_size=1, max_size=3))
    def holds(made: list[list[tuple[int, int, str | None]]]) -> None:
        store = small_store()
        chunks = {store.file(f"{number}.py"): each for number, each in enumerate(made)}
        rows = {
            file: [store.chunk(file, (start, end), kind=kind) for start, end, kind in each]
            for file, each in chunks.items()
        }
        files = files_of(store.db, {*chunks, 99})
        assert files.keys() == chunks.keys()
        for number, file in files.items():
            lines = range(LAST + 2)
            assert [file.around(line) for line in lines] == [row_at(store.db, file.path, at) for at in lines]
            places = places_at(store.db, rows[number])
            assert {row: file.id_of(row) for row in places} == {row: at.id for row, at in places.items()}

    holds()


def test_a_file_is_read_once(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    assert [_statements(db, files) for files in ({1, 2}, {2, 1}, {2, 3}, {1, 2, 3}, set[int]())] == [
        *(1, 0, 1, 0, 0)
    ]


@pytest.mark.slow
def test_files_with_too_many_chunks_are_not_kept(altered_store: Altered) -> None:
    db = altered_store("DROP TRIGGER chunks_ai", MANY.format(MOST_KEPT))
    assert [_statements(db, {file}) for file in (2, 2, 1, 1, 2, 2)] == [1, 0, 1, 1, 1, 0]


def test_files_that_share_a_row_id_are_damage(altered_store: Altered) -> None:
    db = altered_store(
        *(f"DROP TRIGGER chunks_a{when}" for when in "iud"),
        "CREATE TABLE others AS SELECT * FROM files",
        "DROP TABLE files",
        "ALTER TABLE others RENAME TO files",
        "UPDATE files SET id = 1 WHERE id = 2",
    )
    with pytest.raises(StoreError) as caught:
        files_of(db, {1})
    assert caught.value.code == "damaged"
