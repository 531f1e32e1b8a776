from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.rule("join-undeclared")
@pytest.mark.parametrize(
    "right",
    ["rates r", "(SELECT * FROM rates) r", "r", '"rates" r'],
)
def test_an_asof_join_with_a_table_that_declares_no_available_time_is_refused(
    example: Any, right: str
) -> None:
    joined = f"notes n ASOF JOIN {right} ON n._ingested_at >= r.from_ts"
    sql = f"WITH r AS (SELECT * FROM rates) SELECT n.note_id, r.rate FROM {joined}"  # noqa: S608 - above
    for bounds in ({}, {"available_as_of": "2030-01-01"}):
        refusal = example.refusal("context.query", sql=sql, **bounds)

        assert refusal.code == "StoreAvailableTimeUndeclared"
        assert "rates" in refusal.message


@pytest.mark.rule("join-undeclared")
def test_an_asof_join_with_values_of_the_statement_itself_is_answered(example: Any) -> None:
    sql = (
        "SELECT n.note_id, v.label FROM notes n"
        " ASOF JOIN (VALUES (TIMESTAMPTZ '2030-01-01T00:00:00Z', 'old'),"
        " (TIMESTAMPTZ '2030-01-06T00:00:00Z', 'new')) v(since, label)"
        " ON n.updated_at >= v.since ORDER BY ALL LIMIT 1"
    )

    assert example("context.query", sql=sql)["rows"] == [["n1", "new"]]


@pytest.fixture
def face(make_context_store: Any, face_of: Any) -> Any:
    store = make_context_store()
    columns = {"id": "utf8", "label": "utf8", "from_ts": "timestamp", "available_at": "timestamp"}
    labels = store.table("labels", columns, available_time="available_at")
    labels.run(
        "r1",
        [
            {"id": "x", "label": name, "from_ts": since, "available_at": at}
            for name, since, at in [
                ("first", "2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
                ("restated", "2030-01-01T00:00:00Z", "2030-03-01T00:00:00Z"),
            ]
        ],
    )
    events = store.table("events", {"id": "utf8", "seen": "timestamp", "available_at": "timestamp"})
    events.run("r1", [{"id": "x", "seen": "2030-02-01T00:00:00Z", "available_at": "2030-02-01T00:00:00Z"}])
    return face_of(store.root)


@pytest.mark.rule("per-row-bound")
@pytest.mark.parametrize(
    "join",
    [
        "labels l ON e.id = l.id AND e.seen >= l.available_at",
        "labels l ON l.available_at <= e.seen AND e.id IS NOT DISTINCT FROM l.id",
        "labels l ON e.seen > L.AVAILABLE_AT",
        "labels ON e.seen >= labels.available_at",
        "(SELECT label, available_at AS available_at FROM labels) l ON e.seen >= l.available_at",
        "labels l USING (id, available_at)",
    ],
)
def test_a_row_is_joined_with_the_latest_that_was_available(face: Any, join: str) -> None:
    sql = f"SELECT label FROM events e ASOF JOIN {join}"  # noqa: S608 - above

    assert face("context.query", sql=sql)["rows"] == [["first"]]


@pytest.mark.rule("per-row-bound", "join-undeclared")
@pytest.mark.parametrize(
    "join",
    [
        "labels l ON e.id = l.id AND e.seen >= l.from_ts",
        "labels l ON e.seen <= l.available_at",  # the next one, which was not there yet
        "labels l ON l.available_at >= e.available_at",
        "labels l ON e.available_at <= l.available_at",
        "labels l ON NOT (e.seen < l.available_at)",
        "labels l ON e.seen >= l.available_at - INTERVAL 1 YEAR",
        "labels l(id, label, available_at, x) ON e.seen >= x",
        "labels l(id, label, available_at, x) ON e.seen >= l.available_at",
        "labels l USING (id, _ingested_at)",
        "(SELECT label, available_at AS a FROM labels) l ON e.seen >= l.a",
    ],
)
def test_a_join_by_another_time_or_the_other_way_round_is_refused(face: Any, join: str) -> None:
    refusal = face.refusal("context.query", sql=f"SELECT label FROM events e ASOF JOIN {join}")  # noqa: S608

    assert refusal.code == "StoreAvailableTimeUndeclared"
    assert "available_at" in refusal.message


@pytest.mark.rule("join-undeclared")
def test_each_join_of_a_statement_is_looked_at(face: Any) -> None:
    good = "SELECT label FROM events e ASOF JOIN labels l ON e.seen >= l.available_at"
    bad = good.replace("l.available_at", "l.from_ts")

    assert face("context.query", sql=f"{good} UNION ALL {good}")["rows"] == [["first"], ["first"]]
    for sql in (f"{good} UNION ALL {bad}", f"WITH b AS ({bad}) {good}"):
        assert face.refusal("context.query", sql=sql).code == "StoreAvailableTimeUndeclared"
