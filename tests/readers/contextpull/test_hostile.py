"""ContextPull stores that are unfinished, of other versions, broken or made to harm."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from contextpull.ops import Ops  # type: ignore[import-untyped]  # the package has no types
from contextpull.store import Store  # type: ignore[import-untyped]  # the package has no types

from collated_readers import (
    Budget,
    Embed,
    Matches,
    Neighbours,
    Pattern,
    Query,
    Reading,
    RequestError,
    StoreError,
)
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection, ask
from collated_readers.registry import identify
from collated_readers.single import Answer, search

pytestmark = pytest.mark.slow

READER = ContextPull()
Doctored = Callable[..., StoreConnection]
CodeOf = Callable[[Callable[[], object]], str]

ENDLESS = (
    "CREATE VIEW {} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS {} FROM n"
)
VERSION = "UPDATE meta SET value = '{}' WHERE key = 'schema_version'"
TEXT = "UPDATE sections SET text = '{}' WHERE id = 'a.md#1'"
VECTOR = "INSERT INTO embeddings VALUES ('{}', 'm', 2, {})"
SLOW = Pattern(r"(a|aa|aaa)+(b|c)\1$", is_regex=True)


def _identify(db: StoreConnection, seconds: float = 30) -> Any:
    return ask(db, identify, Budget.lasting(seconds))


def _search(db: StoreConnection, query: Query, embed: Embed | None = None) -> Answer:
    return ask(db, lambda db: search(READER, db, query, embed), Budget.lasting(30))


def _grep(db: StoreConnection, pattern: Pattern, seconds: float = 30) -> Matches:
    budget = Budget.lasting(seconds)
    return ask(db, lambda db: READER.grep(db, pattern, budget), budget)


def _read(db: StoreConnection, record_id: str, context: int = 0) -> Reading:
    return ask(db, lambda db: READER.read(db, record_id, context), Budget.lasting(30))


def _neighbours(db: StoreConnection, record_id: str, steps: int = 5) -> Neighbours:
    return ask(db, lambda db: READER.neighbours(db, record_id, steps, steps), Budget.lasting(30))


def _one_way(model: str, text: str) -> list[float]:
    return [1.0, 0.0]


def _blob(*values: float) -> str:
    return f"x'{struct.pack(f'<{len(values)}f', *values).hex()}'"


# ---------------------------------------------------------------- opening


@pytest.mark.parametrize("version", ["2.0", "0.9", "10.0", "01.0", " 1.0", "v1.0", ""])
def test_another_major_version_is_refused_naming_both(doctored: Doctored, version: str) -> None:
    db = doctored(VERSION.format(version))
    with pytest.raises(StoreError) as caught:
        _identify(db)
    assert caught.value.code == "unsupported_version"
    assert repr(version) in caught.value.message
    assert "1.x" in caught.value.message


def test_a_future_version_is_refused_as_such_whatever_its_tables(doctored: Doctored, code_of: CodeOf) -> None:
    db = doctored(
        "UPDATE meta SET value = '2.0' WHERE key = 'schema_version'",
        "DROP TABLE sections",
        "DROP TABLE sections_fts",
    )
    assert code_of(lambda: _identify(db)) == "unsupported_version"


@pytest.mark.parametrize("version", ["1.7", "1", "1.0.3", "1.x", "1.0-beta"])
def test_any_minor_version_opens(doctored: Doctored, version: str) -> None:
    db = doctored(VERSION.format(version))
    assert _identify(db)[1].schema_version == version


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        (["DELETE FROM meta WHERE key = 'schema_version'"], "unknown_format"),
        (["DELETE FROM meta WHERE key = 'corpus_fingerprint'"], "building"),
        (["ALTER TABLE meta RENAME COLUMN value TO worth"], "unknown_format"),
        (["UPDATE meta SET value = x'31' WHERE key = 'schema_version'"], "damaged"),
        (["UPDATE meta SET value = x'31' WHERE key = 'index_text'"], "damaged"),
        (["DROP TABLE documents"], "wrong_schema"),
        (["DROP TABLE sections", ENDLESS.format("sections", "id")], "wrong_schema"),
        (["DROP TABLE documents", ENDLESS.format("documents", "path")], "wrong_schema"),
        (["DROP TABLE meta", ENDLESS.format("meta", "key")], "wrong_schema"),
        (["DROP TABLE documents", "DROP TABLE meta", ENDLESS.format("meta", "key")], "unknown_format"),
        (["DROP TABLE embeddings", "CREATE VIEW embeddings AS SELECT 1"], "wrong_schema"),
        (["DROP TABLE sections", "CREATE VIRTUAL TABLE sections USING fts5(id, text)"], "wrong_schema"),
        (["ALTER TABLE sections DROP COLUMN next_id"], "wrong_schema"),
        (
            [
                "ALTER TABLE sections RENAME text TO x",
                "ALTER TABLE sections ADD text AS (hex(zeroblob(9e8)))",
            ],
            "wrong_schema",
        ),
        (["DROP TABLE sections_fts"], "wrong_schema"),
        (["DROP TABLE sections_fts", "CREATE TABLE sections_fts (id, heading_path, text)"], "wrong_schema"),
        (
            ["DROP TABLE sections_fts", "CREATE VIRTUAL TABLE sections_fts USING fts5(id, text)"],
            "wrong_schema",
        ),
        (
            [
                "DROP TABLE sections_fts",
                "CREATE VIRTUAL TABLE sections_fts USING fts5(id, heading_path, text, content = 'sections')",
            ],
            "wrong_schema",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_code(
    doctored: Doctored, code_of: CodeOf, statements: list[str], code: str
) -> None:
    db = doctored(*statements)
    assert code_of(lambda: _identify(db)) == code


def test_a_store_from_a_writer_without_embeddings_opens(doctored: Doctored) -> None:
    db = doctored("DROP TABLE embeddings")
    assert _identify(db)[1].model is None
    assert ask(db, lambda db: READER.fused(db, Query("zebra"), _one_way), Budget.lasting(30)) is None


def test_a_code_index_is_not_taken_for_one(shared: Path, open_at: Doctored) -> None:
    found = sorted(shared.glob("data/codebase-index/pydantic/**/*.sqlite"))
    assert found
    reader, _ = _identify(open_at(found[0]))
    assert reader.format == "codebase-index"


def test_the_identity_covers_what_the_fingerprint_does_not(doctored: Doctored) -> None:
    identities = {
        _identify(doctored(sql))[1].identity
        for sql in (
            "SELECT 1",
            "UPDATE meta SET value = 'x' WHERE key = 'index_text'",
            "UPDATE meta SET value = '500' WHERE key = 'section_max_chars'",
            "UPDATE meta SET value = '2001-01-01' WHERE key = 'ingested_at'",
            "INSERT INTO meta VALUES ('embed_model', 'm')",
            "INSERT INTO embeddings VALUES ('a.md#0', 'm', 1, x'0000803f')",
        )
    }
    assert len(identities) == 6


# ---------------------------------------------------------------- searching


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE sections SET heading_path = x'00ff'"],
        ["UPDATE documents SET path = x'00ff' || path"],
        ["UPDATE sections_fts_data SET block = x'00ff00' WHERE id > 10"],
        ["UPDATE sections_fts_data SET block = x'ffffffffff' WHERE id <= 10"],
        ["DELETE FROM sections_fts_data"],
        ["DELETE FROM sections_fts_docsize"],
    ],
)
def test_a_store_whose_values_or_index_are_broken_is_damaged(
    doctored: Doctored, code_of: CodeOf, statements: list[str]
) -> None:
    db = doctored(*statements)
    assert code_of(lambda: _search(db, Query("zebra"))) in {"damaged", "wrong_schema"}


def test_a_rank_that_is_no_finite_number_is_the_stores_fault(doctored: Doctored, code_of: CodeOf) -> None:
    # No words in any row on average, and none in this one: 0 / 0.
    db = doctored(
        "UPDATE sections_fts_docsize SET sz = x'000000'",
        "UPDATE sections_fts_data SET block = x'03000000' WHERE id = 1",
    )
    assert code_of(lambda: _search(db, Query("zebra"))) == "invalid_rank"


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("UPDATE meta SET value = '2026-11-30T10:00:23+00:00' WHERE key = 'ingested_at'", 25),
        ("UPDATE meta SET value = hex(zeroblob(1000000)) WHERE key = 'ingested_at'", 200),
        ("DELETE FROM meta WHERE key = 'ingested_at'", None),
    ],
)
def test_when_it_was_ingested_is_shown_as_it_says_but_never_long(
    doctored: Doctored, statement: str, shown: int | None
) -> None:
    _, facts = _identify(doctored(statement))

    assert {key: len(value) for key, value in facts.details.items()} == (
        {} if shown is None else {"ingested_at": shown}
    )


def test_rows_of_the_index_without_a_section_take_nobodys_place(doctored: Doctored) -> None:
    ghost = "INSERT INTO sections_fts VALUES ('ghost#{}', 'Zebra zebra', 'zebra zebra')"
    db = doctored(*(ghost.format(n) for n in range(30)))
    with closing(Store.open(db.path)) as store:
        for limit in (1, 2, 3, 50):
            reference = Ops(store).search("zebra", limit=limit).hits
            hits = _search(db, Query("zebra", limit=limit)).hits
            assert [(hit.id, hit.score, hit.snippet) for hit in hits] == [
                (hit.id, hit.score, hit.snippet) for hit in reference
            ]


def test_a_section_that_is_indexed_twice_is_found_once(doctored: Doctored) -> None:
    db = doctored("INSERT INTO sections_fts SELECT id, heading_path, text || ' zebra' FROM sections_fts")
    with closing(Store.open(db.path)) as store:
        for limit in (1, 2, 3, 50):
            reference = Ops(store).search("a zebra", limit=limit).hits
            hits = _search(db, Query("a zebra", limit=limit)).hits
            assert [hit.id for hit in hits] == [hit.id for hit in reference]


def test_words_that_are_fts5_syntax_are_only_words(doctored: Doctored) -> None:
    db = doctored()
    for text in ('"', "zebra AND", "NEAR(zebra a)", "text: zebra", "zebra*", "^zebra", "zebra NOT a", "\0a"):
        assert _search(db, Query(text)).mode == "lexical"


# ---------------------------------------------------------------- path filters


def test_a_path_filter_may_have_thousands_of_entries(doctored: Doctored) -> None:
    db = doctored()
    within = (*(f"no/{n}.md" for n in range(5_000)), "b.md")
    hits = _search(db, Query("zebra", within)).hits
    assert [hit.id for hit in hits] == ["b.md#0"]
    found = _grep(db, Pattern("zebra", within=within))
    assert [match.id for match in found.matches] == ["b.md#0"]


@pytest.mark.parametrize("within", ["a.md", ("",), ("a.md", 5), (None,), ("x" * 50_001,)])
def test_a_path_filter_is_a_list_of_strings(doctored: Doctored, within: Any) -> None:
    db = doctored()
    for function in (
        partial(_search, db, Query("zebra", within)),
        partial(_grep, db, Pattern("zebra", within=within)),
    ):
        with pytest.raises(RequestError) as caught:
            function()
        assert caught.value.code == "invalid_params"
        assert caught.value.suggestion == "pass document paths or globs as shown in the index"


# ---------------------------------------------------------------- reading and grep


def test_prev_ids_that_lead_in_a_circle_or_nowhere_end(doctored: Doctored) -> None:
    db = doctored(
        "UPDATE sections SET kind = 'table', heading_path = 'x', prev_id = 'a.md#1' WHERE id = 'a.md#0'",
        "UPDATE sections SET kind = 'table', heading_path = 'x', next_id = 'a.md#0' WHERE id = 'a.md#1'",
        "UPDATE sections SET kind = 'table', prev_id = 'gone', next_id = 'a.md#0' WHERE id = 'b.md#0'",
    )
    assert _read(db, "a.md#0", 5).record.id == "a.md#0"
    assert [r.id for r in _neighbours(db, "a.md#0", 5).records] == ["a.md#1", "a.md#0"]
    # Another document's section is no neighbour.
    assert [r.id for r in _neighbours(db, "b.md#0", 5).records] == ["b.md#0"]


@pytest.mark.parametrize("column", ["text", "heading_path", "kind"])
def test_a_blob_where_text_should_be_is_damage(doctored: Doctored, code_of: CodeOf, column: str) -> None:
    db = doctored(f"UPDATE sections SET {column} = x'7a65627261'")  # noqa: S608 - a test's own
    assert code_of(lambda: _read(db, "a.md#0", 0)) == "damaged"
    if column != "kind":
        grep = Pattern("zebra")
        assert code_of(lambda: _grep(db, grep)) == "damaged"


def test_a_part_of_a_table_from_an_older_writer_gets_its_header(doctored: Doctored) -> None:
    head = "Code | Meaning\n--- | ---"  # no bar in front
    table = "UPDATE sections SET kind = 'table', heading_path = 'T', text = '{}' WHERE id = '{}'"
    db = doctored(
        table.format(f"## T\n\n{head}\nA | 1", "a.md#0"),
        table.format("| B | 2\n| C | 3", "a.md#1"),
        table.format("Part | Desc\n-- | --\nD | 4", "a.md#2"),
    )
    texts = {n: _read(db, f"a.md#{n}", 0).record.text for n in range(3)}
    assert texts == {
        0: f"## T\n\n{head}\nA | 1",
        1: f"{head}\n| B | 2\n| C | 3",
        2: "Part | Desc\n-- | --\nD | 4",
    }
    header = _neighbours(db, "a.md#2", 0).header
    assert header is not None
    assert header.id == "a.md#0"


@pytest.mark.parametrize("heading", ["# zebra", "# zebra \x0b |"])
def test_a_second_table_below_a_heading_of_the_same_name_keeps_its_own_header(
    tmp_path: Path, make_store: Callable[..., Path], open_at: Doctored, heading: str
) -> None:
    """Found by hypothesis: before the first heading a document's title is its heading path."""
    table = "Code | Meaning\n--- | ---"
    path = make_store(tmp_path / "store.sqlite", {"a.md": f"{table}\n\n{heading}\n\n{table}"}, min_chars=1)
    assert _read(open_at(path), "a.md#1").record.text == f"{heading}\n\n{table}"


def test_grep_sees_past_a_nul(doctored: Doctored) -> None:
    db = doctored("UPDATE sections SET text = 'first' || char(0) || 'Needle' WHERE id = 'a.md#1'")
    for text in ("needle", "T\0n"):
        found = _grep(db, Pattern(text))
        assert [match.line for match in found.matches] == ["first\0Needle"]


def test_a_pattern_that_costs_too_much_in_one_section_is_rejected(doctored: Doctored) -> None:
    db = doctored(TEXT.format("a" * 5_000 + "!"))
    with pytest.raises(RequestError) as caught:
        _grep(db, SLOW)
    assert (caught.value.code, caught.value.message) == ("pattern_rejected", "pattern too expensive")
    with pytest.raises(StoreError) as late:
        _grep(db, SLOW, 0.05)
    assert late.value.code == "deadline_exceeded"


@pytest.mark.parametrize(
    "text", ["(", "[a", "a{2,1}", "(?P<x>a)(?P<x", "\\", "(" * 200, "[[a]&&[b]]" * 9, "(?i"]
)
def test_an_odd_pattern_is_refused_or_runs_without_a_warning(doctored: Doctored, text: str) -> None:
    db = doctored()
    try:
        _grep(db, Pattern(text, is_regex=True))
    except RequestError as error:
        assert error.code == "pattern_rejected"
        assert error.suggestion == "set regex=false for a literal match"


def test_no_regex_is_refused_for_the_size_of_the_store(doctored: Doctored) -> None:
    """The reference counts characters over the whole call and gives up at 200,000."""
    db = doctored(TEXT.format("line of a large section " * 20_000))
    found = _grep(db, Pattern("nowhere$", is_regex=True))
    assert found.matches == ()


# ---------------------------------------------------------------- vectors


@pytest.mark.parametrize(
    ("blob", "code"),
    [
        ("x'000000'", "damaged"),
        ("'text'", "damaged"),
        (_blob(math.nan, 0), "invalid_rank"),
        (_blob(math.inf, -math.inf), "invalid_rank"),
    ],
)
def test_a_broken_vector_is_the_stores_fault(
    doctored: Doctored, code_of: CodeOf, blob: str, code: str
) -> None:
    db = doctored(VECTOR.format("a.md#0", blob))
    fused = Query("zebra", is_hybrid=True)
    assert code_of(lambda: _search(db, fused, _one_way)) == code


def test_vectors_are_compared_by_cosine_and_those_of_no_section_are_left_out(doctored: Doctored) -> None:
    vectors = {"a.md#0": (30.0, 40.0), "a.md#1": (1.0, 0.0), "a.md#2": (0.0, 0.0), "gone#0": (1.0, 0.0)}
    db = doctored(*(VECTOR.format(key, _blob(*value)) for key, value in vectors.items()))
    fused = Query("unheard-of", is_hybrid=True)
    hits = _search(db, fused, _one_way).hits
    assert [hit.id for hit in hits] == ["a.md#1", "a.md#0", "a.md#2"]
    assert all(hit.tier == "dense" and hit.snippet.endswith("…") for hit in hits)
