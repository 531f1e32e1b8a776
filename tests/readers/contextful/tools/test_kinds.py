from __future__ import annotations

import hashlib

import pytest

from collated_readers.contextful.model import Column
from collated_readers.contextful.tools.kinds import fingerprint, kind_of


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("VARCHAR", "Utf8"),
        ("TIMESTAMP WITH TIME ZONE", "Timestamp"),
        ("FLOAT[3]", "FixedSizeList<Float32, 3>"),
        ("BIGINT[]", "List<Int64>"),
        ("BIGINT[][]", "List<List<Int64>>"),
        ("MAP(VARCHAR, BOOLEAN)", "Map<Utf8, Boolean>"),
        ("MAP(VARCHAR, BIGINT[])[]", "List<Map<Utf8, List<Int64>>>"),
        (
            'STRUCT("a b" INTEGER, c DOUBLE[], d STRUCT(e BLOB))',
            "Struct<a b: Int32, c: List<Float64>, d: Struct<e: Binary>>",
        ),
        ('STRUCT("a, ""b(" JSON)', 'Struct<a, "b(: Json>'),
        ("DECIMAL(18,3)", "DECIMAL(18,3)"),
        ("UUID", "UUID"),
        ("STRUCT(", "STRUCT("),
        ("", ""),
    ],
)
def test_types_have_the_formats_names(sql: str, kind: str) -> None:
    assert kind_of(sql) == kind


def test_a_fingerprint_is_of_names_and_kinds_in_order() -> None:
    one, other = Column("a", "BIGINT"), Column("b", "VARCHAR")

    assert fingerprint([one, other]) == hashlib.sha256(b"a:Int64\nb:Utf8").hexdigest()
    assert fingerprint([other, one]) != fingerprint([one, other])
    assert fingerprint([]) == hashlib.sha256(b"").hexdigest()
