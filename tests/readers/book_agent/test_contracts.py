"""What a store says of itself, right or wrong: its manifest, its metadata, its tables (L1–L4, E1–E7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from collated_readers import StoreError
from collated_readers.book_agent import PrebuiltVectorStoreAdapter
from collated_readers.book_agent.manifest import explicit_layout, fields_of, is_ours
from collated_readers.book_agent.metadata import meanings_of

Write = Callable[..., Path]
Adapt = Callable[..., PrebuiltVectorStoreAdapter]
Refusal = Callable[..., tuple[str, str]]
Rows = list[tuple[object, object, Sequence[float], object]]

STATED: Mapping[str, object] = {
    "model": "BAAI/bge-m3",
    "dimensions": "1024",
    "dtype": "<f4",
    "normalized": "true",
}


def _meanings(**stated: object) -> dict[str, str | int]:
    rows = {**STATED, **stated}
    return meanings_of((name, value) for name, value in rows.items() if value is not None)


# --------------------------------------------------------------------------- metadata


@pytest.mark.parametrize(
    "stated",
    [
        {"model": None, "EMBEDDING_MODEL": "bge-M3"},
        {"model": "baai/BGE-M3@main"},
        {"dimensions": 1024},
        {"dimensions": None, "embedding_dim": " 1024 "},
        {"dtype": "float32", "endianness": "little-endian"},
        {"dtype": "float32-le", "vector_format": "Float32", "byte_order": "LE"},
        {"normalized": None, "normalize_embeddings": "1"},
        {"normalized": "L2", "normalization": "yes"},
        {"metric": "cosine", "similarity": "dot"},
        {"contract": "bge-m3-lossless-v1"},
        {"source_sha256": "A" * 64, "text_sha256": "a" * 64},
        {"anything else": object()},
    ],
)
def test_metadata_may_be_spelled_in_several_ways(stated: Mapping[str, object]) -> None:
    meanings = _meanings(**stated)
    assert str(meanings["model"]).startswith("BAAI/bge-m3")
    assert (meanings["dimensions"], meanings["order"]) == (1024, "little")


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"model": None}, "model"),
        ({"dtype": "float32"}, "order"),
        ({"dtype": None, "byte_order": "little"}, "type"),
        ({"normalized": None}, "normalized"),
        ({"dimensions": None}, "dimensions"),
        ({"model": "BAAI/bge-m3-v2"}, "bge-m3-v2"),
        ({"model": "bge-m3", "model_name": "bge-m3@2"}, "model_name"),
        ({"dimensions": "512"}, "512"),
        ({"dimensions": "1024.0"}, "1024.0"),
        ({"dimensions": "١٠٢٤"}, "whole number"),
        ({"dimensions": b"1024"}, "neither text"),
        ({"dimensions": "1024", "dim": "768"}, "768"),
        ({"dtype": "float16"}, "float16"),
        ({"byte_order": "big"}, "big"),
        ({"normalized": "false"}, "false"),
        ({"metric": "l2"}, "l2"),
        ({"contract": "bge-m3-lossless-v2"}, "bge-m3-lossless-v2"),
        ({"chunk_count": "4", "chunks": "5"}, "5"),
        ({"chunk_count": "9" * 30}, "9999"),
        ({"source_sha256": "xyz"}, "SHA-256"),
        ({"source_chars": "-1"}, "-1"),
    ],
)
def test_metadata_that_lack_or_contradict_something_say_what(stated: Mapping[str, object], told: str) -> None:
    with pytest.raises(StoreError) as caught:
        _meanings(**stated)
    assert caught.value.code == "metadata_conflict"
    assert told in caught.value.message


def test_the_stated_number_of_chunks_must_be_theirs(
    tmp_path: Path, write_bge: Write, refusal: Refusal
) -> None:
    code, message = refusal(
        write_bge(tmp_path / "store.sqlite", stated={"num_chunks": "4", "chunks": 4}, texts="ab")
    )
    assert (code, "4" in message) == ("metadata_conflict", True)
    assert refusal(write_bge(tmp_path / "empty.sqlite", texts=()))[0] == "empty_store"


def test_a_manifest_may_declare_the_lossless_contract_and_must_then_agree_with_the_metadata(
    tmp_path: Path, write_bge: Write, adapt: Adapt, refusal: Refusal
) -> None:
    path = write_bge(tmp_path / "store.sqlite", stated={"model": None})
    manifest = path.with_suffix(".manifest.json")
    assert refusal(path)[0] == "metadata_conflict"
    manifest.write_text('{"version": "bge-m3-lossless-v1", "model": "bge-m3"}')
    assert adapt(path).inspect().contract == "bge-m3-lossless-v1"
    manifest.write_text('{"version": "bge-m3-lossless-v1", "model": "bge-m3", "dimensions": 768}')
    assert refusal(path)[0] == "metadata_conflict"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (
            "CREATE TABLE chunks (ordinal, char_start, char_end, text, tokens, text_sha256, embedding)",
            "ordinal",
        ),
        (
            "CREATE TABLE chunks (ordinal, char_start, char_end, text, tokens, text_sha256, embedding,"
            " PRIMARY KEY (ordinal, text))",
            "ordinal",
        ),
        (
            "CREATE TABLE chunks (ordinal INTEGER PRIMARY KEY, begin, char_end, text, tokens, text_sha256,"
            " embedding)",
            "char_start",
        ),
    ],
)
def test_other_tables_are_unknown_and_named(
    tmp_path: Path, write_bge: Write, refusal: Refusal, schema: str, told: str
) -> None:
    code, message = refusal(write_bge(tmp_path / "store.sqlite", schema=schema))
    assert code == "unknown_sqlite_schema"
    assert told in message
    assert "tables: chunks, metadata" in message
    assert "adapter" in message


def test_more_columns_are_a_warning(tmp_path: Path, write_bge: Write, adapt: Adapt) -> None:
    path = write_bge(tmp_path / "store.sqlite", "ALTER TABLE chunks ADD COLUMN page INTEGER")
    (warned,) = adapt(path).validate()
    assert (warned.code, "page" in warned.message) == ("extra_columns", True)


@pytest.mark.parametrize(
    "sql",
    [
        ("DROP TABLE metadata", "CREATE VIEW metadata AS SELECT 'model' AS key, 'bge-m3' AS value"),
        ("DROP TABLE chunks", "CREATE VIRTUAL TABLE chunks USING fts5(ordinal, embedding)"),
        (
            "ALTER TABLE metadata RENAME TO m",
            "CREATE TABLE metadata (key TEXT, value TEXT AS (upper(key)))",
        ),
    ],
)
def test_only_ordinary_tables_and_columns_are_read(
    tmp_path: Path, write_bge: Write, refusal: Refusal, sql: tuple[str, ...]
) -> None:
    assert refusal(write_bge(tmp_path / "store.sqlite", *sql))[0] == "unknown_sqlite_schema"


# --------------------------------------------------------------------------- manifests


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"version": None}, "unknown_sqlite_schema"),
        ({"version": "book-agent-explicit-v2"}, "unknown_sqlite_schema"),
        ({"version": 1}, "unknown_sqlite_schema"),
        ({"model": None}, "invalid_manifest"),
        ({"model": ""}, "invalid_manifest"),
        ({"model": 7}, "invalid_manifest"),
        ({"model": "x" * 1_001}, "invalid_manifest"),
        ({"dimensions": None}, "invalid_manifest"),
        ({"dimensions": True}, "invalid_manifest"),
        ({"dimensions": 2.0}, "invalid_manifest"),
        ({"dimensions": "2"}, "invalid_manifest"),
        ({"dimensions": 0}, "invalid_manifest"),
        ({"dimensions": -1}, "invalid_manifest"),
        ({"metric": None}, "invalid_manifest"),
        ({"metric": "hamming"}, "unsupported_metric"),
        ({"metric": "DOT"}, "unsupported_metric"),
        ({"normalization": None}, "invalid_manifest"),
        ({"normalization": "max"}, "unsupported_normalization"),
        ({"embedding_format": ["json"]}, "invalid_manifest"),
        ({"embedding_format": "pickle"}, "unsupported_embedding_format"),
        ({"embedding_format": "float32"}, "unsupported_embedding_format"),
        ({"embedding_format": "float16-le"}, "unsupported_embedding_format"),
        ({"sqlite_schema": None}, "invalid_manifest"),
        ({"sqlite_schema": "passages"}, "invalid_manifest"),
        ({"columns": {"table": None}}, "invalid_manifest"),
        ({"columns": {"table": "pass\0ages"}}, "invalid_manifest"),
        ({"columns": {"text": 3}}, "invalid_manifest"),
        ({"columns": {"id": ""}}, "invalid_manifest"),
        ({"columns": {"source_json": 3}}, "invalid_manifest"),
        ({"columns": {"source_columns": ["page"]}}, "invalid_manifest"),
        ({"columns": {"source_columns": {"page": 1}}}, "invalid_manifest"),
        ({"columns": {"where": "1"}}, "invalid_manifest"),
        ({"columns": {"table": "nothing"}}, "unknown_sqlite_schema"),
        ({"columns": {"table": "Passages"}}, "unknown_sqlite_schema"),
        ({"columns": {"text": "Body"}}, "schema_mismatch"),
        ({"columns": {"vector": "nothing"}}, "schema_mismatch"),
        ({"columns": {"source_json": "nothing"}}, "schema_mismatch"),
        ({"columns": {"source_columns": {"page": "nothing"}}}, "schema_mismatch"),
        ({"columns": {"id": "body"}}, "id_not_primary_key"),
        ({"columns": {"id": "rowid"}}, "schema_mismatch"),
        ({"columns": {"source_json": None, "source_columns": None}}, None),
        ({"metric": "euclidean"}, None),
    ],
)
def test_a_manifest_is_taken_at_its_word_or_refused(
    tmp_path: Path, write_explicit: Write, rows: Rows, fields: Mapping[str, object], code: str | None
) -> None:
    path = write_explicit(tmp_path / "store.sqlite", rows, **fields)
    manifest = path.with_suffix(".manifest.json")
    if code is None:
        PrebuiltVectorStoreAdapter(path, manifest).close()
        return
    with pytest.raises(StoreError) as caught:
        PrebuiltVectorStoreAdapter(path, manifest)
    assert caught.value.code == code
    if code == "unknown_sqlite_schema":
        assert "tables: passages" in caught.value.message


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ("CREATE TABLE passages (identifier TEXT UNIQUE, body, vector, source)", "id_not_primary_key"),
        (
            "CREATE TABLE passages (identifier, body, vector, source, PRIMARY KEY (identifier, body))",
            "id_not_primary_key",
        ),
        (
            "CREATE VIRTUAL TABLE passages USING fts5(identifier, body, vector, source)",
            "virtual_table_unsupported",
        ),
        (
            'create  virtual\ttable\n"passages" using FTS5 (identifier, body, vector, source)',
            "virtual_table_unsupported",
        ),
    ],
)
def test_passages_are_in_an_ordinary_table_with_a_key(
    tmp_path: Path, write_explicit: Write, refusal: Refusal, schema: str, code: str
) -> None:
    assert refusal(write_explicit(tmp_path / "store.sqlite", [], schema=schema))[0] == code


@pytest.mark.parametrize(
    ("sql", "columns", "code"),
    [
        (
            "CREATE VIEW seen AS SELECT identifier, body, vector, source FROM passages",
            {"table": "seen"},
            "id_not_primary_key",
        ),
        (
            "CREATE VIRTUAL TABLE words USING fts5(body)",
            {"table": "words_content", "id": "id", "text": "c0", "vector": "c0", "source_json": None},
            "virtual_table_unsupported",
        ),
        (
            "ALTER TABLE passages ADD COLUMN made TEXT AS (upper(body))",
            {"text": "made"},
            "schema_mismatch",
        ),
    ],
)
def test_what_is_computed_or_an_extensions_own_is_refused(
    tmp_path: Path, write_explicit: Write, sql: str, columns: Mapping[str, object], code: str
) -> None:
    path = write_explicit(tmp_path / "store.sqlite", [], sql, columns=columns)
    with pytest.raises(StoreError) as caught:
        PrebuiltVectorStoreAdapter(path, path.with_suffix(".manifest.json"))
    assert caught.value.code == code


def test_names_are_quoted_whatever_they_hold(
    tmp_path: Path, write_explicit: Write, rows: Rows, adapt: Adapt
) -> None:
    table = 'my "passages"; DROP TABLE x'
    path = write_explicit(
        tmp_path / "store.sqlite",
        rows,
        'ALTER TABLE passages RENAME TO "my ""passages""; DROP TABLE x"',
        f'ALTER TABLE "{table.replace(chr(34), chr(34) * 2)}" RENAME COLUMN identifier TO "select"',
        columns={"table": table, "id": "select"},
    )
    adapter = adapt(path)
    assert adapter.get_record("a").text == rows[0][1]
    assert [hit.id for hit in adapter.search([0.0, 1.0], 1)] == ["b"]


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b"{", b'{"a": NaN}', b"\xff\xfe", b"[" * 100_000, b'{"version": "\xff"}']
)
def test_what_is_no_json_object_is_no_manifest(data: bytes) -> None:
    with pytest.raises(StoreError) as caught:
        fields_of(data)
    assert caught.value.code == "invalid_manifest"


def test_a_manifest_is_ours_if_it_says_so_right_or_wrong() -> None:
    assert is_ours(b'{"sqlite_schema": ')
    assert is_ours(b'{"version": "book-agent-explicit-v9"}')
    assert is_ours(b'{"version": "bge-m3-lossless-v1"}')
    assert not is_ours(b'{"version": 3, "files": ["a.js"]}')


def test_every_spelling_of_a_format_is_known() -> None:
    columns = {"table": "t", "id": "i", "text": "x", "vector": "v"}
    fields = {"version": "book-agent-explicit-v1", "model": "m", "dimensions": 1, "normalization": "none"}
    encodings = {
        spelling: explicit_layout(
            {**fields, "metric": "dot", "embedding_format": spelling, "sqlite_schema": columns}, "", ()
        ).encoding
        for spelling in ("json", "float32-le", "little-endian float32", "float64-be", "big-endian float64")
    }
    assert list(encodings.values()) == ["json", "<f4", "<f4", ">f8", ">f8"]
