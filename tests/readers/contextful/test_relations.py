"""The relation of a table: what its declaration, its bounds and the seed's rules make of its rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextful.instants import parse_bound
from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Bound, Bounds, Column, ContextStore, Declared, Retention, Table
from collated_readers.contextful.relations import relation_of
from collated_readers.contextful.session import Session, open_session

if TYPE_CHECKING:
    from .maker import StoreMaker

MakeStore = Callable[..., "StoreMaker"]
NO_BOUNDS = Bounds()
OWN = "SELECT * EXCLUDE (_ingested_at, _run_id, _row_seq, _commit_seq, _batch_seq, _site_id) FROM t"
"""A table's own columns."""

COLUMNS = {"k": "utf8", "o": "int64", "v": "int64"}


@pytest.fixture
def sessions() -> Iterator[list[Session]]:
    found: list[Session] = []
    yield found
    for session in found:
        session.close()


@pytest.fixture
def read(sessions: list[Session]) -> Callable[..., list[list[Any]]]:
    """`read(store, sql, bounds=…)` returns the rows of a statement over what the maker made."""

    def run(maker: StoreMaker, sql: str, bounds: Bounds = NO_BOUNDS) -> list[list[Any]]:
        sessions.append(open_session(load_store(maker.root), bounds, memory_bytes=1 << 28, threads=2))
        sessions[-1].touch(["t"])
        return sessions[-1].query(sql).rows

    return run


Read = Callable[..., list[list[Any]]]


def refusal(ask: Callable[[], object]) -> str:
    with pytest.raises(RequestError) as raised:
        ask()
    return raised.value.code


# ---------------------------------------------------------------------------- keys and orders


def test_nulls_lose_and_ties_are_broken_as_the_seed_says(make_context_store: MakeStore, read: Read) -> None:
    maker = make_context_store()
    table = maker.table("t", COLUMNS, primary_key=["k"], order_by="o")
    table.run("r2", [{"k": "a", "o": None, "v": 1}, {"k": "b", "o": 5, "v": 2}], "2030-01-02T00:00:00Z")
    table.run("r1", [{"k": "a", "o": -9, "v": 3}, {"k": "b", "o": 5, "v": 4}], "2030-01-01T00:00:00Z")
    table.run("r3", [{"k": "c", "o": 1, "v": 5}, {"k": "c", "o": 1, "v": 6}], "2030-01-01T00:00:00Z")
    table.run("r4", [{"k": "c", "o": 1, "v": 7}, {"k": None, "o": 1, "v": 8}], "2030-01-01T00:00:00Z")
    table.run("r5", [{"k": None, "o": 2, "v": 9}], "2030-01-01T00:00:00Z")
    # a: not null wins; b: the later ingested; c: the greater run; no key is a key as well
    assert read(maker, "SELECT k, v FROM t ORDER BY k") == [["a", "3"], ["b", "2"], ["c", "7"], [None, "9"]]


def test_ingestion_orders_to_the_nanosecond(make_context_store: MakeStore, read: Read) -> None:
    maker = make_context_store()
    table = maker.table("t", COLUMNS, primary_key=["k"])
    table.run("r1", [{"k": "a", "v": 1}], "2030-01-01T00:00:00.000000002Z")
    table.run("r2", [{"k": "a", "v": 2}], "2030-01-01T00:00:00.000000001Z")
    assert read(maker, "SELECT v, _ingested_at FROM t") == [["1", "2030-01-01T00:00:00.000000002Z"]]


def test_no_column_is_added_and_none_is_lost(make_context_store: MakeStore, read: Read) -> None:
    """A survivor's number is nobody's column, whatever columns are called."""
    maker = make_context_store()
    columns = {"k": "utf8", "_rn": "int64", "rn": "int64", 'odd "name': "int64"}
    table = maker.table("t", columns, primary_key=["k"])
    table.run("r1", [{"k": "a", "_rn": 7, "rn": 8, 'odd "name': 9}])
    assert read(maker, OWN) == [["a", "7", "8", "9"]]


def test_the_declared_key_is_what_counts(make_context_store: MakeStore, read: Read) -> None:
    """A key that is declared later works on what is there at once, and on two columns as on one."""
    maker = make_context_store()
    table = maker.table("t", COLUMNS)
    rows = [{"k": "a", "o": 1, "v": 1}, {"k": "a", "o": 1, "v": 2}, {"k": "a", "o": 2, "v": 3}]
    table.run("r1", rows)
    assert len(read(maker, "SELECT * FROM t")) == 3
    maker.declare('[[pipeline.tables]]\nname = "t"\nprimary_key = ["k", "o"]')
    assert read(maker, "SELECT o, v FROM t ORDER BY o") == [["1", "2"], ["2", "3"]]


def test_the_beginning_of_valid_time_is_part_of_the_key(make_context_store: MakeStore, read: Read) -> None:
    maker = make_context_store()
    columns = {"k": "utf8", "since": "timestamp", "v": "int64"}
    table = maker.table("t", columns, primary_key=["k"], valid_time={"from": "since"})
    first, second = "2030-01-01T00:00:00Z", "2030-02-01T00:00:00Z"
    table.run("r1", [{"k": "a", "since": first, "v": 1}, {"k": "a", "since": second, "v": 2}])
    table.run("r2", [{"k": "a", "since": first, "v": 3}], "2030-01-02T00:00:00Z")
    assert read(maker, "SELECT v FROM t ORDER BY since") == [["3"], ["2"]]
    # Without an end, a row is true until further notice, and both are.
    bounds = Bounds(valid_as_of=parse_bound("2030-01-31"))
    assert read(maker, "SELECT v FROM t", bounds) == [["3"]]


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ({"primary_key": ["k", "nope"]}, "StoreKeyUnknownColumn"),
        ({"primary_key": ["k"], "order_by": "nope"}, "StoreOrderByUnknownColumn"),
        ({"primary_key": ["k"], "valid_time": {"from": "nope"}}, "StoreKeyUnknownColumn"),
        ({"retain_rows": {"column": "nope", "age": "1d"}}, "engine_error"),
    ],
)
def test_a_declaration_of_columns_that_are_not_there_is_told(
    make_context_store: MakeStore, read: Read, declared: Mapping[str, Any], code: str
) -> None:
    maker = make_context_store()
    maker.table("t", COLUMNS, **declared).run("r1", [{"k": "a"}])
    assert refusal(lambda: read(maker, "SELECT 1")) == code


@pytest.mark.parametrize("pair", [{"from": "v"}, {"from": "at", "to": "k"}, {"from": "at", "to": "nope"}])
def test_a_valid_time_that_is_no_instant_is_told_where_it_is_asked_for(
    make_context_store: MakeStore, read: Read, pair: Mapping[str, str]
) -> None:
    maker = make_context_store()
    columns = {**COLUMNS, "at": "timestamp"}
    maker.table("t", columns, valid_time=pair).run("r1", [{"k": "a", "at": "2030-01-01T00:00:00Z"}])
    assert len(read(maker, "SELECT * FROM t")) == 1
    bounds = Bounds(valid_as_of=Bound(0))
    assert refusal(lambda: read(maker, "SELECT 1", bounds)) == "StoreValidTimeNotTimestamp"


@pytest.mark.parametrize(
    ("type_", "cells"),
    [
        ("TIMESTAMPTZ_NS", ["2030-01-01T00:00:00.000000001Z", "2030-01-01T00:00:00.000000002Z"]),
        ("TIMESTAMPTZ", ["2030-01-01T00:00:00.000001Z", "2030-01-01T00:00:00.000002Z"]),
        ("TIMESTAMP", ["2030-01-01T00:00:00.000001Z", "2030-01-01T00:00:00.000002Z"]),
        ("TIMESTAMP_NS", ["2030-01-01T00:00:00.000000001Z", "2030-01-01T00:00:00.000000002Z"]),
        ("TIMESTAMP_MS", ["2030-01-01T00:00:00.001Z", "2030-01-01T00:00:00.002Z"]),
        ("TIMESTAMP_S", ["2030-01-01T00:00:01Z", "2030-01-01T00:00:02Z"]),
    ],
)
def test_valid_time_is_exact_whatever_digits_a_column_keeps(
    make_context_store: MakeStore, read: Read, type_: str, cells: Sequence[str]
) -> None:
    since, until = cells
    maker = make_context_store()
    columns = {"since": "timestamp", "until": "timestamp"}
    table = maker.table("t", columns, valid_time={"from": "since", "to": "until"})
    table.run("r1", [{}])
    part = table.folder / "data/runs/r1/ingest-a/part-00000.parquet"
    casts = f"TIMESTAMPTZ_NS '{since}'::{type_} AS since, TIMESTAMPTZ_NS '{until}'::{type_} AS until"
    maker.parquet_of(f"SELECT {casts}, 'r1' AS _run_id", part)
    for text, is_true in ((since, True), (until, False), ("1066-01-01", False), ("2900-01-01", False)):
        for at, found in ((parse_bound(text).at, is_true), (parse_bound(text).at - 1, not is_true)):
            if text in cells:
                rows = read(maker, "SELECT since FROM t", Bounds(valid_as_of=Bound(at)))
                assert rows == ([[since]] if found else [])
    for text in ("1066-01-01", "2900-01-01"):
        assert read(maker, "SELECT since FROM t", Bounds(valid_as_of=parse_bound(text))) == []


# ---------------------------------------------------------------------------- columns


def test_late_columns_are_there_before_and_after_they_land(make_context_store: MakeStore, read: Read) -> None:
    maker = make_context_store()
    table = maker.table("t", {"k": "utf8"})
    table.run("r1", [{"k": "a"}])
    table.run("r2", [{"k": "b", "late": [1, 2]}], "2030-01-02T00:00:00Z", columns={"late": "list<int64>"})
    assert read(maker, "SELECT k, late FROM t ORDER BY k") == [["a", None], ["b", ["1", "2"]]]
    before = Bounds(as_of=parse_bound("2030-01-01T12:00:00Z"))
    assert read(maker, "SELECT k, late FROM t ORDER BY k", before) == [["a", None]]
    assert read(maker, "SELECT typeof(late) FROM t", before) == [["BIGINT[]"]]


def test_columns_go_by_name_and_widen(make_context_store: MakeStore, read: Read) -> None:
    maker = make_context_store()
    table = maker.table("t", {"k": "utf8", "n": "int64"})
    for run, sql in (("r1", "SELECT 'a' AS k, 1::INTEGER AS n"), ("r2", "SELECT 2.5::DOUBLE AS n, 'b' AS k")):
        table.run(run, [{"k": "x"}])
        maker.parquet_of(sql, table.folder / f"data/runs/{run}/ingest-a/part-00000.parquet")
    assert read(maker, "SELECT k, n FROM t ORDER BY k") == [["a", 1.0], ["b", 2.5]]


@pytest.mark.rule("bytes-and-vectors")
def test_vectors_are_of_their_declared_length(make_context_store: MakeStore, read: Read) -> None:
    maker = make_context_store()
    table = maker.table("t", {"k": "utf8", "e": "float32[3]"})
    table.run("r1", [{"k": "a", "e": [1, 0.5, 0]}, {"k": "b", "e": None}])
    assert read(maker, "SELECT typeof(e), e FROM t ORDER BY k") == [
        ["FLOAT[3]", [1, 0.5, 0]],
        ["FLOAT[3]", None],
    ]


def test_partitions_are_read_from_the_files_and_not_from_their_paths(
    make_context_store: MakeStore, read: Read
) -> None:
    maker = make_context_store()
    table = maker.table("t", {"k": "utf8", "p": "utf8"}, partition_by=["p"])
    values = ["1", "01", "é/ü", "", None, "__HIVE_DEFAULT_PARTITION__", "2030-01-01"]
    table.run("r1", [{"k": str(at), "p": value} for at, value in enumerate(values)])
    table.fold("2030-01-02T00:00:00Z", partition_by="p")
    assert read(maker, "SELECT p FROM t ORDER BY k") == [[value] for value in values]


@pytest.mark.rule("pinned-schema")
def test_a_pinned_build_has_the_columns_of_its_own_parts(make_context_store: MakeStore, read: Read) -> None:
    maker = make_context_store()
    table = maker.table("t", {"k": "utf8"})
    table.run("r1", [{"k": "a"}])
    table.fold("2030-01-02T00:00:00Z", publish={"build_id": "b1"})
    table.run("r2", [{"k": "b", "late": 1}], "2030-01-03T00:00:00Z", columns={"late": "int64"})
    assert read(maker, OWN, Bounds(pin={"t": "b1"})) == [["a"]]
    assert read(maker, f"{OWN} ORDER BY k") == [["a", None], ["b", "1"]]


# ---------------------------------------------------------------------------- derivations and age

DERIVED = {
    "unit_ref": "utf8",
    "derivation_key": "utf8",
    "cue_seq": "int64",
    "kind": "utf8",
    "unit_status": "utf8",
    "task_version": "utf8",
    "text": "utf8",
}
DERIVE_KEY = ["unit_ref", "derivation_key", "cue_seq"]


def passage(unit: str, key: str, cue: int, text: str, version: str = "1") -> dict[str, Any]:
    named = {"unit_ref": unit, "derivation_key": key, "cue_seq": cue, "task_version": version}
    return {**named, "kind": "passage", "text": text}


def marker(unit: str, key: str, status: str, version: str = "1") -> dict[str, Any]:
    named = {"unit_ref": unit, "derivation_key": key, "cue_seq": -1, "task_version": version}
    return {**named, "kind": "marker", "unit_status": status}


def test_what_a_later_derivation_of_a_unit_replaced_is_gone(
    make_context_store: MakeStore, read: Read
) -> None:
    maker = make_context_store()
    table = maker.table("t", DERIVED, primary_key=DERIVE_KEY)
    old = [passage("a", "k1", 0, "a old"), passage("b", "k1", 0, "b"), passage("c", "k1", 0, "c old")]
    old += [passage("d", "k1", 0, "d"), marker("d", "k1", "ok")]
    table.run("r1", old, "2030-01-01T00:00:00Z")
    new = [passage("a", "k2", 0, "a new"), passage("a", "k2", 1, "a more"), marker("c", "k2", "empty")]
    table.run("r2", [*new, marker("d", "k2", "error")], "2030-01-02T00:00:00Z")
    shown = "SELECT unit_ref, coalesce(text, unit_status) FROM t ORDER BY 1, 2"
    assert read(maker, shown) == [
        ["a", "a more"],
        ["a", "a new"],
        ["b", "b"],
        ["c", "empty"],
        ["d", "d"],
        ["d", "error"],  # what failed replaces nothing, and is told
        ["d", "ok"],
    ]


@pytest.mark.parametrize(("retained", "texts"), [(False, ["new"]), (True, ["new", "old"])])
def test_versions_are_kept_apart_where_they_are_retained(
    make_context_store: MakeStore, read: Read, texts: list[str], *, retained: bool
) -> None:
    maker = make_context_store()
    table = maker.table("t", DERIVED, primary_key=DERIVE_KEY, retain_versions=retained)
    table.run("r1", [passage("a", "k1", 0, "old", "1")], "2030-01-01T00:00:00Z")
    table.run("r2", [passage("a", "k2", 0, "new", "2")], "2030-01-02T00:00:00Z")
    assert read(maker, "SELECT text FROM t ORDER BY 1") == [[text] for text in texts]


def test_rows_that_are_too_old_are_hidden_by_the_clock(make_context_store: MakeStore, read: Read) -> None:
    maker = make_context_store()
    table = maker.table("t", {"k": "utf8", "at": "timestamp"}, retain_rows={"column": "at", "age": "30d"})
    now = datetime.now(UTC)
    ages = {"fresh": timedelta(days=29), "stale": timedelta(days=31), "future": timedelta(days=-1)}
    rows: list[dict[str, Any]] = [
        {"k": k, "at": f"{(now - age).replace(tzinfo=None).isoformat()}Z"} for k, age in ages.items()
    ]
    table.run("r1", [*rows, {"k": "ageless"}])
    assert read(maker, "SELECT k FROM t ORDER BY k") == [["fresh"], ["future"]]


def test_age_is_read_from_text_where_it_can_be() -> None:
    kept = Retention("at", 10**9)
    table = Table("t", Declared("t", retain_rows=kept), (Column("at", "VARCHAR"),))
    sql = relation_of(table, "SELECT * FROM x", {"at": "VARCHAR"}, NO_BOUNDS)
    assert sql.endswith(
        """WHERE TRY_CAST("at" AS TIMESTAMPTZ) >= CAST(now() - to_seconds(1) AS TIMESTAMPTZ)"""
    )


# ---------------------------------------------------------------------------- zones


@pytest.mark.rule("restriction-block", "scoped-ledger")
def test_a_table_of_another_zone_has_no_rows_and_a_closed_ledger(
    make_context_store: MakeStore, sessions: list[Session]
) -> None:
    maker = make_context_store()
    maker.table("t", COLUMNS).run("r1", [{"k": "a"}])
    store = load_store(maker.root)
    far = Declared("t", zone_allow=("on-prem:*",))
    table = Table("t", far, store.tables["t"].columns, store.tables["t"].runs)
    away = ContextStore(store.root, store.project, store.digest, {"t": table})
    sessions.append(open_session(away, NO_BOUNDS, memory_bytes=1 << 28, threads=1))
    session = sessions[0]
    session.touch(["t"])
    assert session.query("SELECT count(*), count(k) FROM t").rows == [["0", "0"]]
    assert session.relations == {"t"}
    assert session.closed == {"t__requests": "its table is not for the zone local:device"}


# ---------------------------------------------------------------------------- a plain model

Event = tuple[str, list[dict[str, Any]], str]
KEYS: st.SearchStrategy[Any] = st.sampled_from(["a", "b", "c", None])
ORDERS: st.SearchStrategy[Any] = st.sampled_from([None, 1, 2, 3])
LATE: st.SearchStrategy[Any] = st.integers(0, 9)


@st.composite
def event(draw: st.DrawFn) -> Event:
    """Return a fold, or rows that a run lands on some node; some of them have a column that comes late."""
    if draw(st.integers(0, 2)) == 0:
        return "fold", [], ""
    rows: list[dict[str, Any]] = [
        {"k": draw(KEYS), "o": draw(ORDERS), "v": draw(st.integers(0, 99))}
        for _ in range(draw(st.integers(1, 4)))
    ]
    for row in rows:
        if draw(st.booleans()):
            row["late"] = draw(LATE)
    return "run", rows, draw(st.sampled_from(["ingest-a", "ingest-b"]))


def instant(day: int) -> str:
    return f"2030-01-{day:02}T00:00:00Z"


def shown(rows: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    names = ("k", "o", "v", "late", "_run_id", "_row_seq", "_commit_seq")
    return sorted(([row.get(name) for name in names] for row in rows), key=repr)


def plain(rows: Sequence[Mapping[str, Any]], key: Sequence[str], order: str) -> list[Mapping[str, Any]]:
    """Return the survivors of *rows*, one for each key: the seed's rule in so many words."""

    def rank(row: Mapping[str, Any]) -> list[tuple[bool, Any]]:
        names = dict.fromkeys((order, "_ingested_at", "_run_id", "_row_seq", "_commit_seq"))
        return [(row.get(name) is not None, row.get(name) or 0) for name in names]

    best: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for number, row in enumerate(rows):
        place = tuple(row.get(name) for name in key) if key else (number,)
        if place not in best or rank(row) > rank(best[place]):
            best[place] = row
    return list(best.values())


@pytest.mark.slow
@pytest.mark.timeout(300)
@given(
    events=st.lists(event(), min_size=1, max_size=6),
    key=st.sampled_from([(), ("k",), ("k", "o")]),
    order=st.sampled_from(["_ingested_at", "o", "v"]),
    replaces=st.booleans(),
    as_of=st.integers(0, 8),
)
def test_the_relation_is_that_of_a_plain_model(
    maker: ModuleType,
    events: Sequence[Event],
    key: Sequence[str],
    order: str,
    *,
    replaces: bool,
    as_of: int,
) -> None:
    """Nothing that was folded, late or replaced comes twice or goes missing, now and as of each day."""
    declared: dict[str, Any] = {"write_mode": "replace"} if replaces else {}
    declared |= {"primary_key": list(key), "order_by": order} if key else {}
    with tempfile.TemporaryDirectory() as folder:
        store = maker.StoreMaker(Path(folder) / "project")
        try:
            table = store.table("t", COLUMNS, **declared)
            landed: list[tuple[int, list[dict[str, Any]]]] = []
            for day, (what, rows, node) in enumerate(events, 1):
                if what == "fold":
                    table.fold(instant(day))
                    continue
                late = {"late": "int64"} if any("late" in row for row in rows) else None
                # Runs of one id on two nodes are two runs.
                run = table.run(f"r{(day + 1) // 2}", rows, instant(day), node=f"{node}{day}", columns=late)
                landed.append((day, run.rows))
            state = load_store(store.root)
            for bound in (None, as_of):
                seen = [rows for day, rows in landed if bound is None or day <= bound]
                rows = seen[-1] if replaces and seen else [row for run in seen for row in run]
                bounds = Bounds(
                    as_of=None if bound is None else parse_bound(instant(bound) if bound else "2029-12-31")
                )
                session = open_session(state, bounds, memory_bytes=1 << 28, threads=1)
                try:
                    found = session.fetch("FROM t")
                finally:
                    session.close()
                assert shown(found) == shown(plain(rows, key, order))
        finally:
            store.close()
