"""The scenarios of the seed's read face, in its order.

Not here: `retrieve.since`, which is with the tests of ranked retrieval; `horizon.exceeds-horizon` and
`horizon.rank-statistics`, which begin with a credential that carries a horizon, and nobody who asks through
a socket of their own machine has a credential. What stands in for it is that no tool takes a horizon.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from collated_readers.contextful.tools import TOOLS


@pytest.mark.rule("withheld-count")
def test_lineage_withheld_count_and_depth_bound_are_refused_whole_rather_than_answered_in_part(
    example: Any,
) -> None:
    """A session reads one table of two that a job joins; a walk stops with an edge remaining."""
    for params in ({"table": "notes"}, {"table": "notes", "depth": 1}):
        assert example.refusal("context.lineage", **params).code == "ReadArgumentUnsupported"


@pytest.mark.rule("per-row-bound")
def test_as_of_join_per_row_bound(make_context_store: Any, face_of: Any) -> None:
    """A directory maps a stable id to alpha, available 2012, and to beta, available 2022."""
    store = make_context_store()
    directory = store.table(
        "directory",
        {"resource": "utf8", "label": "utf8", "available_at": "timestamp"},
        available_time="available_at",
    )
    directory.run(
        "r1",
        [
            {"resource": "resource-1", "label": "alpha", "available_at": "2012-05-18T00:00:00Z"},
            {"resource": "resource-1", "label": "beta", "available_at": "2022-06-09T00:00:00Z"},
        ],
    )
    events = [
        {"resource": "resource-1", "at": "2021-03-01T00:00:00Z"},
        {"resource": "resource-1", "at": "2022-07-01T00:00:00Z"},
    ]
    store.table("events", {"resource": "utf8", "at": "timestamp"}).run("r1", events)
    sql = (
        'SELECT e."at" AS happened, d.label FROM events e ASOF JOIN directory d'
        ' ON e.resource = d.resource AND e."at" >= d.available_at ORDER BY happened'
    )

    assert face_of(store.root)("context.query", sql=sql)["rows"] == [
        ["2021-03-01T00:00:00Z", "alpha"],
        ["2022-07-01T00:00:00Z", "beta"],
    ]


@pytest.mark.parametrize("name", TOOLS)
def test_no_tool_takes_a_horizon(example: Any, name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"horizon|required"):
        example(name, horizon="2014-05-01")


def notified(answer: dict[str, Any]) -> list[str]:
    return [f"{one['run_id']}/{one['node_id']}" for one in answer["messages"]]


@pytest.mark.rule("resume", "durable-source")
@pytest.mark.parametrize("is_folded", [False, True])
def test_subscribe_resume(make_context_store: Any, face_of: Any, is_folded: bool) -> None:
    """Runs r1, r2 and r3 commit; a subscription resumes after r1; a fold before changes nothing."""
    store = make_context_store()
    events = store.table("events", {"n": "int64"})
    for number in (1, 2, 3):
        events.run(f"r{number}", [{"n": number}], f"2030-01-0{number}T00:00:00Z")
    if is_folded:
        events.fold("2030-01-04T00:00:00Z")
    answer = face_of(store.root)("context.subscribe", tables=["events"], after={"events": "r1/ingest-a"})

    assert notified(answer) == ["r2/ingest-a", "r3/ingest-a"]


@pytest.mark.rule("after-commit")
def test_subscribe_after_commit(make_context_store: Any, face_of: Any) -> None:
    """A leased pipeline's run writes its manifest, and its commit-log entry is absent."""
    store = make_context_store()
    events = store.table("events", {"n": "int64"})
    leased = {"pipeline": "feed", "fence": 7, "logged": True}
    events.run("r1", [{"n": 1}], **leased)
    events.run("r2", [{"n": 2}], manifest=False)
    face = face_of(store.root)

    assert notified(face("context.subscribe", tables=["events"])) == []
    events.log("feed", "ingest-a", "r1", 7)
    assert notified(face("context.subscribe", tables=["events"])) == ["r1/ingest-a"]


@pytest.mark.rule("commit-order")
def test_subscribe_commit_order(make_context_store: Any, face_of: Any) -> None:
    """A run at 5 waits for its marker, here its log entry, and a plain run at 6 waits for it."""
    store = make_context_store()
    events = store.table("events", {"n": "int64"})
    for number in range(1, 5):
        events.run(f"r{number}", [{"n": number}])
    events.run("r5", [{"n": 5}], pipeline="feed", fence=7, logged=True)
    events.run("r6", [{"n": 6}])
    face = face_of(store.root)
    before = face("context.subscribe", tables=["events"], after={"events": "r4/ingest-a"})
    events.log("feed", "ingest-a", "r5", 7)
    after = face("context.subscribe", tables=["events"], after=before["after"])

    assert notified(before) == []
    assert [one["frontier"]["commit_seq"] for one in after["messages"]] == [5, 6]


@pytest.mark.rule("commit-order")
def test_a_run_that_will_never_be_committed_holds_nothing_up(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    events = store.table("events", {"n": "int64"})
    events.run("lost", [{"n": 1}], pipeline="feed", fence=7, logged=True)
    events.run("next", [{"n": 2}], pipeline="feed", fence=8, logged=True, entry_fence=8)

    assert notified(face_of(store.root)("context.subscribe", tables=["events"])) == ["next/ingest-a"]


@pytest.mark.rule("frontier-covers-run")
def test_a_read_at_a_notifications_frontier_covers_its_run(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    events = store.table("events", {"n": "int64"})
    for number in range(1, 4):
        events.run(f"r{number}", [{"n": number}], f"2030-01-01T00:00:00.00000000{number}Z")
    face = face_of(store.root)
    for number, message in enumerate(face("context.subscribe", tables=["events"])["messages"], 1):
        frontier = message["frontier"]["as_of"]
        rows = face("context.query", sql="SELECT n FROM events ORDER BY n", as_of=frontier)["rows"]
        files = face("context.files", as_of=frontier)["rows"]

        assert rows == [[str(one)] for one in range(1, number + 1)]
        assert any(f"/r{number}/" in path for _, path in files)
