from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.rule("reference.call", "admission")
@pytest.mark.parametrize(
    ("table", "run_id", "row_seq", "is_there"),
    [
        ("notes", "run-0007", 0, True),
        ("notes", "run-0001", 2, True),
        ("notes", "run-0001", 0, False),  # a newer row of its key replaced it
        ("notes", "run-0001", 99, False),
        ("notes", "run-0006", 0, False),  # never committed
        ("events", "r1", 0, True),  # on two nodes
        ("kb/articles", "run-0001", 1, True),
        ("quiet", "run-0001", 0, False),
    ],
)
def test_a_citation_is_available_or_missing(
    example: Any, table: str, run_id: str, row_seq: int, is_there: bool
) -> None:
    answer = example("context.reference", table=table, run_id=run_id, row_seq=row_seq)

    assert answer == {
        "columns": ["available", "reason"],
        "rows": [[is_there, "available" if is_there else "missing"]],
        "truncated": False,
    }


@pytest.mark.rule("reference.call")
def test_a_verdict_shows_nothing_of_the_row(example: Any) -> None:
    answer = example("context.reference", table="notes", run_id="run-0007", row_seq=0, internals=True)

    assert "Heat pump" not in repr(answer)


@pytest.mark.rule("admission")
@pytest.mark.parametrize("table", ["secret", "notes__requests", "NOTES"])
def test_an_unknown_table_is_refused(example: Any, table: str) -> None:
    refusal = example.refusal("context.reference", table=table, run_id="run-0001", row_seq=0)

    assert refusal.code == "EnforceUnknownRelation"


@pytest.mark.rule("admission", "index-visibility")
def test_a_table_with_a_policy_is_refused_as_one_that_is_not_there(
    make_context_store: Any, face_of: Any
) -> None:
    store = make_context_store()
    policy = {"rows": {"predicate": "true"}}
    store.table("secret", {"n": "int64"}, policy=policy).run("r1", [{"n": 1}])
    face = face_of(store.root)
    there = face.refusal("context.reference", table="secret", run_id="r1", row_seq=0)
    absent = face.refusal("context.reference", table="absent", run_id="r1", row_seq=0)

    assert there.message.replace("secret", "absent") == absent.message


@pytest.mark.rule("admission", "bound-arguments")
def test_a_citation_is_looked_up_under_the_bounds(example: Any) -> None:
    at = {"as_of": "2030-01-10T03:00:00Z"}
    replaced = example("context.reference", table="notes", run_id="run-0001", row_seq=0, **at)
    later = example("context.reference", table="notes", run_id="run-0007", row_seq=0, **at)

    assert (replaced["rows"][0][0], later["rows"][0][0]) == (True, False)
    assert replaced["contextful.bounds"]["as_of"] == "2030-01-10T03:00:00.000000000Z"


@pytest.mark.rule("admission")
def test_a_verdict_that_comes_too_late_is_none(example: Any) -> None:
    refusal = example.refusal(
        "context.reference", table="notes", run_id="run-0007", row_seq=0, max_duration_ms=0
    )

    assert refusal.code == "ReadDurationExceeded"
