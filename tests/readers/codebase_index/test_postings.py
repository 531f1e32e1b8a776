"""What the reader says of its index: bm25 over its arrays, and names, are the lists that it ranks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated_readers import Budget, StoreError
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.opening import StoreConnection, ask, open_store

MakeStore = Callable[..., Path]
CheckIndex = Callable[..., None]
Altered = Callable[..., StoreConnection]

READER = CodebaseIndex()

QUERIES = (
    *(
        "get_params_from_function",
        "getParamsFromFunction",
        "GET-PARAMS from_function",
        "get params from function",
    ),
    *("completion script", "how does the completion get installed for zsh", "HTTPServer", "Typer", "main"),
    *(
        "the",
        "",
        "--",
        "ñandú",
        "método ñandú",
        "collections.abc",
        "zzz",
        "a a a",
        "self self.name",
        "x_" * 40,
    ),
)

WORDS = (
    "zebra",
    "Zebra",
    "getZebra",
    "get_zebra",
    "a",
    "HTTPZebra",
    "zébra",
    "x1",
    "_p_",
    "-",
    "日本語",
    "ß",
)
word = st.sampled_from(WORDS)
line = st.lists(word, max_size=5).map(" ".join)
name = st.sampled_from(("getZebra", "get_zebra", "zebra", "GetZebra", "x1", "a"))
definition = st.tuples(name, name).map(lambda names: f"def {names[0]}():\n    return {names[1]}()\n")
klass = st.tuples(name, name).map(
    lambda names: f"class {names[0]}:\n    def {names[1]}(self):\n        pass\n"
)
source = st.lists(definition | klass | line.map(lambda text: f"# {text}\n"), max_size=6).map("\n".join)
projects = st.dictionaries(st.sampled_from(("a.py", "b.py", "dir/c.py", "ü.md", "d.txt")), source, min_size=1)
queries = st.lists(st.lists(word, max_size=4).map(" ".join), min_size=5, max_size=10)


def _stored(db: StoreConnection) -> list[tuple[str, str]]:
    """Return the id and the path of each chunk, counted here in plain Python."""
    rows = db.execute(
        "SELECT f.path, c.line_start, c.line_end FROM chunks c JOIN files f ON f.id = c.file_id "
        "ORDER BY c.kind = 'doc', c.id"
    ).fetchall()
    seen: dict[str, int] = {}
    stored: list[tuple[str, str]] = []
    for path, start, end in rows:
        place = f"{path}:{start}-{end}"
        seen[place] = seen.get(place, 0) + 1
        stored.append((place + (f"#{seen[place]}" if seen[place] > 1 else ""), path))
    return stored


@pytest.mark.parametrize(
    "name",
    [
        "typer/index.sqlite",
        pytest.param("live_wal/index.sqlite", marks=pytest.mark.slow),
        pytest.param("degraded_no_grammar/typer_no_symbols.sqlite", marks=pytest.mark.slow),
        pytest.param("after_update/typer_after_update.sqlite", marks=pytest.mark.slow),
        "schema_versions/typer_v1.2.1.sqlite",
        pytest.param("schema_versions/typer_883d37c.sqlite", marks=pytest.mark.slow),
        pytest.param("schema_versions/typer_v4_vec64_forced.sqlite", marks=pytest.mark.slow),
        pytest.param("pydantic/index.sqlite", marks=pytest.mark.slow),
    ],
)
def test_ranks_over_the_arrays_of_a_real_store_are_what_it_ranks(
    code_store: Callable[[str], StoreConnection], check_index: CheckIndex, name: str
) -> None:
    db = code_store(name)
    check_index(READER, db, QUERIES, _stored(db))


@pytest.mark.slow
@given(data=st.data())
@settings(
    max_examples=15,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_ranks_over_the_arrays_are_what_any_store_ranks(
    tmp_path_factory: pytest.TempPathFactory,
    make_code_store: MakeStore,
    check_index: CheckIndex,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("store")
    path = folder / "store.sqlite"
    for _ in range(data.draw(st.integers(1, 2))):  # the second time files go and come
        make_code_store(path, data.draw(projects))
    budget = Budget.lasting(60)
    with closing(open_store(path, copies=folder / "c", copy_limit_bytes=0, budget=budget)) as db:
        check_index(READER, db, data.draw(queries), _stored(db))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO chunks SELECT id + 1000000, file_id, 1, 1, kind, NULL, 'new', 1, '' FROM chunks LIMIT 1",
        "DELETE FROM fts_chunks_docsize WHERE id = (SELECT min(id) FROM fts_chunks_docsize)",
        "UPDATE fts_chunks_docsize SET sz = x'7f' WHERE id = (SELECT min(id) FROM fts_chunks_docsize)",
        "UPDATE chunks SET file_id = 1000000 WHERE id = (SELECT min(id) FROM chunks)",
        "UPDATE chunks SET line_start = -3",
        "UPDATE chunks SET line_end = 'seven'",
        "UPDATE files SET path = x'00' WHERE id = (SELECT min(id) FROM files)",
        "UPDATE symbols SET name = x'00'",
        "UPDATE edges SET line = 'seven'",
    ],
)
def test_an_index_that_does_not_go_with_the_chunks_is_damaged(altered_store: Altered, statement: str) -> None:
    drops = [f"DROP TRIGGER {name}" for name in ("chunks_ai", "chunks_ad", "chunks_au")]
    db = altered_store("PRAGMA foreign_keys = OFF", *drops, statement)
    with pytest.raises(StoreError) as caught:
        ask(db, READER.postings, Budget.lasting(30))
    assert caught.value.code == "damaged"


def test_an_index_that_is_declared_otherwise_is_left_to_the_store(altered_store: Altered) -> None:
    db = altered_store(
        "DROP TABLE fts_chunks",
        "CREATE VIRTUAL TABLE fts_chunks USING fts5("
        "content, symbol_names, path UNINDEXED, content='chunks', content_rowid='id', tokenize='porter')",
    )
    assert ask(db, READER.postings, Budget.lasting(30)) is None
    assert ask(db, READER.vocabulary, Budget.lasting(30)) is None
