"""The columns of `schema.json`, and the spellings of declared types."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from collated_readers.contextful.model import INJECTED, Column
from collated_readers.contextful.schemas import columns_of_schema, declared_columns, quiet_columns

PAIRS = {
    "bool": "BOOLEAN",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "utf8": "VARCHAR",
    "json": "JSON",
    "binary": "BLOB",
    "timestamp": "TIMESTAMPTZ",
    "float32[3]": "FLOAT[3]",
    "list<utf8>": "VARCHAR[]",
    "list<list<int64>>": "BIGINT[][]",
    "map<utf8, float64>": "MAP(VARCHAR, DOUBLE)",
    "struct<a: int64, b c: json>": 'STRUCT("a" BIGINT, "b c" JSON)',
}


def schema(*fields: dict[str, Any]) -> bytes:
    """Return a `schema.json` of *fields*."""
    return json.dumps({"fields": fields}).encode()


def field(name: str = "x", **more: Any) -> dict[str, Any]:
    """Return a field of plain text, or what *more* makes of it."""
    return {"name": name, "nullable": True, "type": {"name": "utf8"}, "children": [], **more}


@pytest.mark.parametrize(("spelled", "type_"), PAIRS.items())
def test_a_type_is_the_same_in_a_schema_and_in_a_declaration(
    maker: ModuleType, spelled: str, type_: str
) -> None:
    expected = Column("x", type_, is_text=type_ == "VARCHAR", is_json=type_ == "JSON")
    assert columns_of_schema(schema(maker.arrow_field("x", spelled))) == (expected,)
    assert declared_columns({"x": spelled}) == (expected,)


@pytest.mark.parametrize(
    ("spelled", "type_"),
    [
        (" Boolean ", "BOOLEAN"),
        ("INTEGER", "BIGINT"),
        ("Double", "DOUBLE"),
        ("String", "VARCHAR"),
        ("text", "VARCHAR"),
        ("bytes", "BLOB"),
        ("binary(16)", "BLOB"),
        ("float16[ 4 ]", "FLOAT[4]"),
        ("LIST<Text>", "VARCHAR[]"),
        ("Struct<Name: utf8, inner: struct<a: int32, b: list<bool>>>",
         'STRUCT("Name" VARCHAR, "inner" STRUCT("a" INTEGER, "b" BOOLEAN[]))'),
        ('struct<a"b: int64>', 'STRUCT("a""b" BIGINT)'),
    ],
)  # fmt: skip
def test_spellings_do_not_mind_case_and_keep_the_names_of_members(spelled: str, type_: str) -> None:
    assert [column.type for column in declared_columns({"x": spelled})] == [type_]


@pytest.mark.parametrize(
    "spelled",
    [
        "",
        "varchar",
        "int16",
        "float32",
        "float32[0]",
        "float32[99999]",
        "binary(0)",
        "list<>",
        "list<int64",
        "map<int64, utf8>",
        "map<utf8>",
        "map<utf8, utf8, utf8>",
        "struct<>",
        "struct<a>",
        "struct<a: int64, A: int64>",
        "list<" * 1_900 + "bool" + ">" * 1_900,
        "utf8); DROP TABLE x; --",
        7,
        None,
    ],
)
def test_a_spelling_that_is_none_is_refused(spelled: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        declared_columns({"x": spelled})


def test_unknown_keys_and_metadata_of_a_field_are_ignored() -> None:
    late = {"first_landed_at": "2030-01-01T00:00:00Z"}
    fields = [field("a", **late), field("b", metadata=late), field("c", metadata=[{"key": "k", "value": 1}])]
    assert [column.name for column in columns_of_schema(schema(*fields))] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"fields": null}',
        b'{"fields": [{}]}',
        b'{"fields": [{"name": "x"}]}',
        b'{"fields": ' + b"[" * 100_000,
        b"\xff\xfe",
        schema(field("")),
        schema(field("a\0b")),
        schema(field("a" * 1_001)),
        schema(field("a"), field("A")),
        schema(field(type={"name": "date"})),
        schema(field(type={"name": "int", "bitWidth": 16, "isSigned": True})),
        schema(field(type={"name": "int", "bitWidth": 64, "isSigned": False})),
        schema(field(type={"name": "floatingpoint", "precision": "SINGLE"})),
        schema(field(type={"name": "timestamp", "unit": "NANOSECOND"})),
        schema(field(type={"name": "list"})),
        schema(field(type={"name": "struct"})),
        schema(field(type={"name": "map"}, children=[field()])),
        schema(field(type={"name": "fixedsizelist", "listSize": 3}, children=[field()])),
        schema(*(field(f"c{number}") for number in range(10_001))),
    ],
)
def test_a_schema_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        columns_of_schema(data)


def test_a_type_nested_too_deeply_is_refused() -> None:
    nested = field()
    for _ in range(100):
        nested = field(type={"name": "list"}, children=[nested])
    with pytest.raises(ValueError, match="too deeply"):
        columns_of_schema(schema(nested))


@pytest.mark.rule("quiet-table")
def test_a_quiet_table_has_its_own_columns_and_then_the_injected_ones() -> None:
    declared = declared_columns({"source_run": "utf8", "_run_id": "int64", "n": "int64"})
    columns = quiet_columns(declared)
    assert [column.name for column in columns] == ["source_run", "n", *INJECTED]
    assert {column.name: column.type for column in columns}["_run_id"] == "VARCHAR"
