"""`corpus.retrieve` over stores that are made here: the worked examples of retrieve.md §12 and its rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from collated_readers.codes import RequestError
from collated_readers.contextful.instants import parse_bound, parse_instant
from collated_readers.contextful.model import Bounds
from collated_readers.contextful.responses import blocks
from collated_readers.contextful.retrieving import Kept
from collated_readers.contextful.retrieving.retrieve import COLUMNS

if TYPE_CHECKING:
    from collated_readers.contextful.retrieving import Retrieved
    from collated_readers.contextful.session import Session

Make = Callable[..., Any]
Open = Callable[..., "Session"]
Ask = Callable[..., "Retrieved"]
RowsOf = Callable[["Retrieved"], list[dict[str, Any]]]

TEXT = {"id": "utf8", "title": "utf8", "body": "utf8"}
EXAMPLE_A = [
    ("n1", "Solar battery storage costs fall", "Cell prices fell again."),
    ("n2", "Battery storage for regional grids", "Grid operators buy storage."),
    ("n3", "Quarterly hiring plan", "Two analysts."),
    ("n4", "Solar battery storage at Globex", "Globex buys cells."),
]


def _texts(rows: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    return [dict(zip(TEXT, row, strict=True)) for row in rows]


@pytest.fixture
def notes(make_context_store: Make, opened: Open) -> Session:
    """The texts of example A, in a table that declares nothing."""
    store = make_context_store()
    store.table("notes", TEXT).run("r1", _texts(EXAMPLE_A))
    session: Session = opened(store.root)
    return session


def _ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["_row"]["id"] for row in rows]


# ------------------------------------------------------------------------ the worked examples


@pytest.mark.rule("ranked-call", "three-legs", "relevance-floor", "retrieval-block", "match-count")
def test_the_first_worked_example_is_answered_in_this_order(
    notes: Session, asked: Ask, rows_of: RowsOf
) -> None:
    found = asked(notes, "solar battery storage", prefix="notes")
    assert _ids(rows_of(found)) == ["n4", "n1", "n2"]
    assert [row["_score"] for row in rows_of(found)] == [3, 3, 2]
    assert found.block(3) == {
        "window": 200,
        "candidates_prefloor": 4,
        "candidates": 3,
        "matched": 3,
        "returned": 3,
        "in_window": 3,
        "deduped": 0,
        "padded": 0,
        "floor": 2,
        "since": None,
    }


@pytest.mark.rule("caller-embedding", "three-legs", "fusion")
def test_the_second_worked_example_fuses_words_and_vectors(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    columns = {"id": "utf8", "body": "utf8", "embedding": "float32[3]"}
    rows = [
        {"id": "a1", "body": "Storage lowers grid costs. Storage pays.", "embedding": [1.0, 0.0, 0.0]},
        {"id": "a2", "body": "Wind farms in the north sea.", "embedding": [0.0, 1.0, 0.0]},
        {"id": "a3", "body": "Batteries and storages in homes.", "embedding": [0.6, 0.8, 0.0]},
    ]
    store.table("articles", columns).run("r1", rows)
    reads = opened(store.root)
    found = asked(reads, "storage", query_embedding=[1, 0, 0])
    assert _ids(rows_of(found)) == ["a1", "a3"]
    assert [row["_vscore"] for row in rows_of(found)] == pytest.approx([1.0, 0.6])
    assert "embedding" not in rows_of(found)[0]["_row"]
    without = asked(reads, "storage")
    assert [row["_vscore"] for row in rows_of(without)] == [None, None]
    nothing_but_vectors = asked(reads, "", query_embedding=[0, 2.5, 0])
    assert _ids(rows_of(nothing_but_vectors)) == ["a2", "a3", "a1"]


@pytest.mark.rule("relevance-floor")
def test_a_row_below_the_floor_stays_where_its_vector_points_the_same_way(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    rows = [
        {"id": "near", "body": "solar", "embedding": [0.01, 1.0]},
        {"id": "across", "body": "solar", "embedding": [0.0, 1.0]},
        {"id": "away", "body": "solar battery", "embedding": [-1.0, 0.0]},
        {"id": "none", "body": "solar battery storage", "embedding": None},
        {"id": "zero", "body": "solar battery", "embedding": [0.0, 0.0]},
    ]
    store.table("t", {"id": "utf8", "body": "utf8", "embedding": "float32[2]"}).run("r1", rows)
    found = rows_of(asked(opened(store.root), "solar battery storage", query_embedding=[1, 0]))
    assert sorted(_ids(found)) == ["away", "near", "none", "zero"]
    assert {row["_row"]["id"]: row["_vscore"] for row in found}["zero"] is None
    other_length = rows_of(asked(opened(store.root), "solar battery storage", query_embedding=[1, 0, 0]))
    assert sorted(_ids(other_length)) == ["away", "none", "zero"]


# ------------------------------------------------------------------------ tables


@pytest.mark.rule("table-list")
def test_tables_that_are_not_there_are_named_all_in_the_order_given(notes: Session, asked: Ask) -> None:
    with pytest.raises(RequestError) as caught:
        asked(notes, "storage", tables=["zebra", "notes", "apple"])
    assert caught.value.code == "RetrieveTableUnavailable"
    assert caught.value.message == "RetrieveTableUnavailable: zebra, apple"


@pytest.mark.rule("table-list", "ranked-call")
def test_rows_are_those_of_tables_under_the_prefix_that_are_listed(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    for name in ("kb/one", "kb/two", "other"):
        store.table(name, TEXT).run("r1", [{"id": name, "title": "storage"}])
    reads = opened(store.root)
    assert _ids(rows_of(asked(reads, "storage"))) == ["kb/one", "kb/two", "other"]
    assert _ids(rows_of(asked(reads, "storage", prefix="kb/"))) == ["kb/one", "kb/two"]
    assert _ids(rows_of(asked(reads, "storage", prefix="kb/", tables=["kb/two", "other"]))) == ["kb/two"]
    assert rows_of(asked(reads, "storage", tables=[])) == []


@pytest.mark.rule("reserved-columns-project-null", "ranked-call")
def test_columns_are_always_the_same_and_null_where_a_table_has_none(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    store.table("plain", {"id": "utf8", "body": "utf8"}).run("r1", [{"id": "p", "body": "storage"}])
    rich = {"id": "utf8", "body": "utf8", "kind": "utf8", "_lang": "utf8", "_modality": "utf8"}
    given = {"id": "q", "body": "storage", "kind": "note", "_lang": "en", "_modality": "text"}
    store.table("rich", rich).run("r7", [given])
    found = asked(opened(store.root), "storage")
    plain, full = rows_of(found)
    assert found.columns == COLUMNS
    assert (plain["_modality"], plain["_lang"], plain["_prompt_hash"], plain["_kind"]) == (None,) * 4
    assert (full["_modality"], full["_lang"], full["_kind"]) == ("text", "en", "note")
    assert (full["_table"], full["_run_id"], full["_ingested_at"]) == ("rich", "r7", "2030-01-01T00:00:00Z")
    assert full["_row"] == {"id": "q", "body": "storage", "kind": "note"}


@pytest.mark.rule("unsatisfiable-arm-drops", "kinds")
def test_a_table_without_a_filtered_column_adds_nothing(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    store.table("plain", TEXT).run("r1", [{"id": "p", "body": "storage"}])
    kinds = [{"id": "a", "body": "storage", "kind": "note"}, {"id": "b", "body": "storage", "kind": "mail"}]
    store.table("kinds", {**TEXT, "kind": "utf8"}).run("r1", kinds)
    reads = opened(store.root)
    assert _ids(rows_of(asked(reads, "storage", kinds=["mail", "post"]))) == ["b"]
    assert _ids(rows_of(asked(reads, "storage", filter={"kind": "note", "id": ["a", "b"]}))) == ["a"]
    assert rows_of(asked(reads, "storage", filter={"nowhere": 1})) == []


@pytest.mark.rule("filter-budget-refusal")
def test_a_filter_is_judged_before_any_table(notes: Session, asked: Ask) -> None:
    with pytest.raises(RequestError) as caught:
        asked(notes, "storage", filter={"a": None}, tables=["zebra"])
    assert caught.value.code == "FilterBudgetExceeded"


@pytest.mark.rule("text-free-table-scores-null", "relevance-floor")
def test_rows_without_text_are_found_by_vectors_alone(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    rows = [{"n": 1, "embedding": [1.0, 0.0]}, {"n": 2, "embedding": [0.0, 1.0]}]
    store.table("t", {"n": "int64", "embedding": "float32[2]"}).run("r1", rows)
    reads = opened(store.root)
    assert rows_of(asked(reads, "storage")) == []
    (found,) = rows_of(asked(reads, "storage", query_embedding=[1, 0]))
    assert (found["_score"], found["_snippet"], found["_row"]) == (None, None, {"n": "1"})
    assert len(rows_of(asked(reads, "the"))) == 2


@pytest.mark.rule("empty-scored-text", "scored-text")
def test_text_that_is_declared_and_not_there_admits_only_vectors(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    table = store.table("t", {**TEXT, "embedding": "float32[2]"}, retrieve={"text": ["gone"]})
    table.run("r1", [{"id": "a", "body": "storage", "embedding": [1.0, 0.0]}])
    reads = opened(store.root)
    assert rows_of(asked(reads, "storage")) == []
    assert _ids(rows_of(asked(reads, "storage", query_embedding=[1, 0]))) == ["a"]


@pytest.mark.rule("scored-text", "snippet")
def test_declared_text_is_scored_where_the_snippet_does_not_reach(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    columns = {"id": "utf8", "title": "utf8", "a": "utf8", "b": "utf8", "c": "utf8", "n": "int64"}
    table = store.table("t", columns, retrieve={"text": ["a", "b", "c", "n", "title"]})
    table.run("r1", [{"id": "x", "title": "T", "a": "A", "b": "B", "c": "storage", "n": 2030}])
    (found,) = rows_of(asked(opened(store.root), "storage 2030"))
    assert (found["_score"], found["_snippet"]) == (2, "T — A — B")


@pytest.mark.rule("snippet")
def test_nulls_are_left_out_of_a_snippet(notes: Session, asked: Ask, rows_of: RowsOf) -> None:
    (found,) = rows_of(asked(notes, "hiring"))
    assert found["_snippet"] == "Quarterly hiring plan — Two analysts."


@pytest.mark.rule("table-list", "excluded-arm")
def test_tables_that_are_not_for_this_zone_or_reader_give_nothing(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    row = [{"id": "a", "body": "storage"}]
    store.table("cloud", TEXT, policy={"zone": {"allow": ["public-cloud:*"]}}).run("r1", row)
    store.table("masked", TEXT, policy={"rows": {"predicate": "id = 'a'"}}).run("r1", row)
    store.table("open", TEXT).run("r1", [{"id": "b", "body": "storage"}])
    reads = opened(store.root)
    found = asked(reads, "storage")
    assert _ids(rows_of(found)) == ["b"]
    (restricted,) = blocks(reads, found.tables)["contextful.restriction"]["relations"]
    assert (restricted["table"], restricted["excluded"]) == ("cloud", True)
    with pytest.raises(RequestError) as caught:
        asked(reads, "storage", tables=["masked"])
    assert caught.value.message == "RetrieveTableUnavailable: masked"


def test_a_ledger_is_a_relation_without_anything_to_rank(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    table = store.table("t", TEXT)
    table.run("r1", [{"id": "a", "body": "storage"}])
    table.ledger("r1", [{"method": "storage"}])
    reads = opened(store.root)
    assert _ids(rows_of(asked(reads, "storage"))) == ["a"]
    assert rows_of(asked(reads, "storage", tables=["t__requests"])) == []


def test_a_damaged_table_refuses_the_read_that_would_take_from_it(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    store.table("good", TEXT).run("r1", [{"id": "a", "body": "storage"}])
    bad = store.table("bad", TEXT)
    bad.run("r1", [])
    (bad.folder / "schema.json").write_text("[")
    reads = opened(store.root)
    with pytest.raises(RequestError) as caught:
        asked(reads, "storage")
    assert caught.value.code == "StoreManifestUnreadable"
    assert _ids(rows_of(asked(reads, "storage", prefix="good"))) == ["a"]


# ------------------------------------------------------------------------ window, floor, order


@pytest.mark.rule("candidate-window", "face-ceiling")
def test_the_newest_two_hundred_rows_are_looked_at(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    rows = [{"id": f"{number}", "body": "storage" if number in (4, 5) else "-"} for number in range(205)]
    store.table("t", TEXT).run("r1", rows)
    reads = opened(store.root)
    found = asked(reads, "storage")
    assert _ids(rows_of(found)) == ["5"]
    assert found.block(1)["candidates_prefloor"] == found.block(1)["window"] == 200
    wider = asked(reads, "storage", limit=26)
    assert (wider.block(2)["window"], len(wider.rows)) == (208, 2)
    assert asked(reads, "storage", limit=20_000).block(2)["window"] == 80_000


@pytest.mark.rule("candidate-window", "row-ceiling")
def test_a_tables_own_ceiling_makes_the_window(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    table = store.table("t", TEXT, policy={"limits": {"max_rows": 2}})
    table.run("r1", [{"id": f"{number}", "body": "storage"} for number in range(5)])
    found = asked(opened(store.root), "storage", limit=100)
    assert (found.ceilings.rows.value, len(rows_of(found)), len(found.rows)) == (2, 2, 3)
    assert found.block(2)["window"] == 200
    response = found.respond({})
    assert response["truncated"] is True
    assert response["contextful.truncation"] == {"by": "rows", "ceiling": 2, "source": "table"}


@pytest.mark.rule("relevance-floor")
@pytest.mark.parametrize(
    ("query", "least", "ids"),
    [
        ("solar cells plan", None, ["n4"]),
        ("solar plan", None, ["n1", "n3", "n4"]),
        ("solar cells plan", 1, ["n1", "n3", "n4"]),
        ("solar cells plan", 3, []),
        ("solar plan", 2, []),
        ("solar", 0, ["n1", "n2", "n3", "n4"]),
    ],
)
def test_so_many_tokens_must_stand_in_a_text(
    notes: Session, asked: Ask, query: str, least: int | None, ids: list[str]
) -> None:
    found = asked(notes, query, min_score=least)
    assert sorted(row[1]["id"] for row in found.rows) == ids
    assert found.block(0)["floor"] == (least if least is not None else 2 if query.count(" ") == 2 else 1)


@pytest.mark.rule("token-cap", "dedup-is-gated", "lexical-leg-matches-only")
def test_a_query_without_tokens_lists_the_newest_and_has_no_floor(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    table = store.table("t", {**TEXT, "hash": "utf8"}, content_hash_column="hash")
    table.run("r1", [{"id": "old", "hash": "h"}], "2030-01-01T00:00:00Z")
    table.run("r2", [{"id": "new", "hash": "h"}], "2030-01-02T00:00:00Z")
    found = asked(opened(store.root), "the of", min_score=1)
    assert _ids(rows_of(found)) == ["new", "old"]
    assert (found.block(2)["floor"], found.block(2)["deduped"], found.block(2)["matched"]) == (None, 0, 0)


@pytest.mark.rule("fusion", "flat-window-full-credit")
def test_equal_rows_go_by_their_identifier_as_text(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    store.table("t", TEXT).run("r1", [{"id": f"{number}", "body": "storage"} for number in range(12)])
    found = asked(opened(store.root), "storage", limit=4)
    assert _ids(rows_of(found)) == ["0", "1", "10", "11"]


@pytest.mark.rule("since", "question-window-is-a-tier", "window-anchor-tolerance")
def test_what_is_older_than_the_question_asks_is_last_but_there(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    rows = [
        {"id": "old", "body": "storage storage storage", "published_at": "2029-12-31"},
        {"id": "first", "body": "storage a b c", "published_at": "2030-01-01"},
        {"id": "spelled", "body": "storage a b c", "published_at": "2030-01-01T01:00:00+01:00"},
        {"id": "null", "body": "storage", "published_at": None},
        {"id": "word", "body": "storage", "published_at": "sometime"},
        {"id": "near", "body": "storage a b c", "published_at": "2030-01-11T00:00:00Z"},
        {"id": "far", "body": "storage", "published_at": "2030-01-11T00:00:00.000000001Z"},
    ]
    store.table("t", {**TEXT, "published_at": "utf8"}).run("r1", rows)
    reads = opened(store.root, Bounds(as_of=parse_bound("2030-01-10T00:00:00Z")))
    found = asked(reads, "storage", since="2030-01-01")
    flags = {row["_row"]["id"]: (row["_in_window"], row["_date_basis"]) for row in rows_of(found)}
    assert flags == {
        "old": (False, "published_at"),
        "first": (True, "published_at"),
        "spelled": (True, "published_at"),
        "null": (False, "null"),
        "word": (False, "uncastable"),
        "near": (True, "published_at"),
        "far": (False, "published_at"),
    }
    assert _ids(rows_of(found)) == ["first", "spelled", "near", "old", "null", "word", "far"]
    assert (found.block(7)["in_window"], found.block(4)["in_window"], found.block(2)["in_window"]) == (
        3,
        3,
        2,
    )
    assert found.block(7)["since"] == "2030-01-01"
    assert all(row["_in_window"] for row in rows_of(asked(reads, "storage")))


@pytest.mark.rule("window-anchor-tolerance")
def test_without_a_bound_the_question_is_asked_now(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    store.table("t", TEXT).run("r1", [{"id": "a", "body": "storage"}], "2030-01-02T00:00:00Z")
    reads = opened(store.root)
    for now, is_in in (("2030-01-01T00:00:00Z", True), ("2029-12-31T23:59:59Z", False)):
        (row,) = rows_of(asked(reads, "storage", since="2029-01-01", now_ns=parse_instant(now)))
        assert (row["_in_window"], row["_date_basis"]) == (is_in, "_ingested_at")


@pytest.mark.rule("lexical-leg-matches-only", "ordering-casts-first", "question-window-is-a-tier")
def test_an_empty_ranking_goes_by_instants_not_by_their_text(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    rows = [
        {"id": "b", "date": "2030-01-05T01:00:00+03:00"},  # the day before
        {"id": "c", "date": "2030-01-05"},
        {"id": "d", "date": "2029-01-01"},
        {"id": "e", "date": "2030-01-06"},
        {"id": "f", "date": "-"},  # when it was taken in
    ]
    store.table("t", {**TEXT, "date": "utf8"}).run("r1", rows, "2030-01-04T23:00:00Z")
    found = asked(opened(store.root), "", since="2030-01-01")
    assert _ids(rows_of(found)) == ["e", "c", "b", "f", "d"]


# ------------------------------------------------------------------------ versions of the same


@pytest.mark.rule("row-key-dedup", "row-key-stays-internal")
def test_only_the_newest_of_a_key_is_found_and_no_older_one_stands_in(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    table = store.table("t", {**TEXT, "hash": "utf8"}, content_hash_column="hash")
    first = [
        {"id": "a1", "body": "storage", "hash": "a"},
        {"id": "b1", "body": "storage", "hash": "b"},
        {"id": "c1", "body": "storage", "hash": None},
        {"id": "c2", "body": "storage", "hash": None},
    ]
    table.run("r1", first, "2030-01-01T00:00:00Z")
    second = [{"id": "a2", "body": "storage", "hash": "a"}, {"id": "b2", "body": "nothing", "hash": "b"}]
    table.run("r2", second, "2030-01-02T00:00:00Z")
    reads = opened(store.root)
    found = asked(reads, "storage")
    assert sorted(_ids(rows_of(found))) == ["a2", "c1", "c2"]
    assert (found.block(3)["deduped"], found.block(3)["candidates"]) == (2, 3)
    assert not any("key" in name for name in found.columns)
    filtered = asked(reads, "storage", filter={"id": ["a1", "b1"]})
    assert sorted(_ids(rows_of(filtered))) == ["a1", "b1"]


@pytest.mark.rule("row-key-dedup")
def test_a_newer_version_outside_the_window_counts(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    columns = {**TEXT, "hash": "binary"}
    store.table("other", TEXT).run("r1", [{"id": "o", "body": "storage"}])
    table = store.table("t", columns, content_hash_column="hash", policy={"limits": {"max_rows": 5}})
    keyed = [{"id": f"{n}", "body": "storage", "hash": bytes([n % 3, 255])} for n in range(9)]
    table.run("r1", keyed, "2030-01-01T00:00:00Z")
    found = asked(opened(store.root), "storage")
    assert sorted(_ids(rows_of(found))) == ["6", "7", "8", "o"]


def test_two_nodes_with_one_run_id_have_rows_of_their_own(
    make_context_store: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    store = make_context_store()
    table = store.table("t", TEXT)
    table.run("r1", [{"id": "a", "body": "storage"}], node="ingest-a")
    table.run("r1", [{"id": "b", "body": "storage"}], node="ingest-b")
    assert sorted(_ids(rows_of(asked(opened(store.root), "storage")))) == ["a", "b"]


# ------------------------------------------------------------------------ the response


@pytest.mark.rule("delivered-counts", "truncation-is-exact", "internal-score-stays-internal", "byte-ceiling")
def test_counts_are_of_the_rows_that_are_delivered(notes: Session, asked: Ask) -> None:
    whole = asked(notes, "solar battery storage").respond({})
    assert (whole["truncated"], whole["contextful.retrieval"]["returned"]) == (False, 3)
    assert not {"fused", "bm25", "rank"} & {name.strip("_") for name in whole["columns"]}
    cut = asked(notes, "solar battery storage", max_response_bytes=1_000).respond({"more": 1})
    delivered = len(cut["rows"])
    assert 0 < delivered < 3
    assert cut["contextful.retrieval"]["returned"] == cut["contextful.retrieval"]["in_window"] == delivered
    assert cut["contextful.truncation"]["by"] == "bytes"
    one = asked(notes, "solar battery storage", limit=1).respond({})
    assert (len(one["rows"]), one["truncated"]) == (1, True)
    exact = asked(notes, "solar battery storage", limit=3).respond({})
    assert (len(exact["rows"]), exact["truncated"]) == (3, False)


@pytest.mark.rule("duration-ceiling", "internals-opt-in")
def test_a_read_is_held_to_its_time_and_says_what_it_asked(notes: Session, asked: Ask) -> None:
    with pytest.raises(RequestError) as caught:
        asked(notes, "storage", max_duration_ms=0)
    assert caught.value.code == "ReadDurationExceeded"
    assert asked(notes, "storage", max_duration_ms=60_000).sql.startswith('SELECT "id", "title"')


def test_no_row_at_all_may_be_asked_for(notes: Session, asked: Ask) -> None:
    response = asked(notes, "storage", limit=0).respond({})
    assert (response["rows"], response["truncated"]) == ([], True)


@pytest.mark.rule("zero-rows-is-success", "absent-block")
def test_a_question_nobody_answers_is_an_answer_with_a_block(notes: Session, asked: Ask) -> None:
    response = asked(notes, "zebra").respond({})
    assert (response["rows"], response["truncated"]) == ([], False)
    assert response["contextful.retrieval"]["matched"] == 0


@pytest.mark.parametrize(
    "params",
    [{"query_embedding": []}, {"query_embedding": [float("inf")]}, {"since": "soon"}],
)
def test_arguments_that_mean_nothing_are_refused(notes: Session, asked: Ask, params: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        asked(notes, "storage", **params)
    assert caught.value.code == "invalid_params"


@pytest.mark.rule("ranked-call")
def test_what_was_kept_gives_the_same_answer(make_context_store: Make, opened: Open, asked: Ask) -> None:
    store = make_context_store()
    rows = [{"id": f"{n}", "title": f"storage {n}", "body": "cell " * (n % 7)} for n in range(50)]
    store.table("t", TEXT).run("r1", rows)
    reads, kept = opened(store.root), Kept()
    for query in ("storage 3", "cell", "storage 3"):
        assert asked(reads, query, kept=kept) == asked(reads, query)
    assert asked(reads, "cell", kept=Kept(characters=10)) == asked(reads, "cell")


def test_rows_that_the_clock_hides_are_not_kept(make_context_store: Make, opened: Open, asked: Ask) -> None:
    store = make_context_store()
    table = store.table("t", {**TEXT, "seen": "timestamp"}, retain_rows={"column": "seen", "age": "30d"})
    table.run("r1", [{"id": "a", "body": "storage", "seen": "2200-01-01T00:00:00Z"}])
    kept = Kept()
    assert len(asked(opened(store.root), "storage", kept=kept).rows) == 1
    assert not len(kept)
