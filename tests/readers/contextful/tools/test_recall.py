from __future__ import annotations

import json
from typing import Any

import pytest

COLUMNS = {
    "claim_id": "utf8",
    "subject": "utf8",
    "predicate": "utf8",
    "object": "utf8",
    "tier": "utf8",
    "valid_from": "timestamp",
    "valid_to": "timestamp",
    "superseded_by": "utf8",
}


def claim(claim_id: str, value: str, since: str, until: str | None = None, **more: str) -> dict[str, Any]:
    made = {"claim_id": claim_id, "subject": "acme", "predicate": "ceo", "object": value, "tier": "curated"}
    return {**made, "valid_from": since, "valid_to": until, **more}


@pytest.fixture
def face(make_context_store: Any, face_of: Any) -> Any:
    store = make_context_store()
    facts = store.table("memory/facts", COLUMNS)
    facts.run(
        "r1",
        [
            claim("c1", "Dana", "2030-01-01T00:00:00Z", "2030-02-01T00:00:00Z", superseded_by="c2"),
            claim("c2", "Lee", "2030-02-01T00:00:00Z"),
            claim("c3", "Sam", "2030-01-15T00:00:00Z", tier="derived"),
            claim("c4", "Kim", "2030-01-10T00:00:00Z", tier="unheard of"),
            claim("c5", "other", "2030-01-01T00:00:00Z", subject="acme inc"),
            claim("c6", "other", "2030-01-01T00:00:00Z", subject="ACME"),
        ],
        "2030-03-01T00:00:00Z",
    )
    facts.run("r2", [claim("c7", "Pat", "2030-01-20T00:00:00Z")], "2030-04-01T00:00:00Z")
    store.quiet("memory/none", columns={"note": "utf8"})
    store.table("memory/empty", COLUMNS)
    return face_of(store.root)


def recalled(face: Any, **params: Any) -> list[str]:
    answer = face("memory.recall", table="memory/facts", **{"subject": "acme", **params})
    return [row[answer["columns"].index("object")] for row in answer["rows"]]


def test_claims_of_exactly_that_subject_that_hold_now_come_by_standing_then_newest_first(face: Any) -> None:
    assert recalled(face) == ["Lee", "Pat", "Sam", "Kim"]
    assert recalled(face, subject="acme inc") == ["other"]
    assert recalled(face, subject="acm%") == []


@pytest.mark.parametrize(
    ("observed_at", "expected"),
    [
        ("2030-01-05T00:00:00Z", ["Dana"]),
        ("2030-01-01T00:00:00Z", ["Dana"]),
        ("2029-12-31T23:59:59.999999Z", []),
        ("2030-01-31", ["Pat", "Dana", "Sam", "Kim"]),  # a day: up to its end, which is not in it
        ("2030-02-01T00:00:00Z", ["Lee", "Pat", "Sam", "Kim"]),
    ],
)
def test_a_claim_answers_for_the_time_in_which_it_held(
    face: Any, observed_at: str, expected: list[str]
) -> None:
    assert recalled(face, observed_at=observed_at) == expected


def test_what_had_not_landed_was_not_known(face: Any) -> None:
    answer = face(
        "memory.recall",
        table="memory/facts",
        subject="acme",
        observed_at="2030-01-31",
        as_of_ingest="2030-03-15T00:00:00Z",
    )

    assert recalled(face, as_of_ingest="2030-03-15T00:00:00Z") == ["Lee", "Sam", "Kim"]
    assert answer["contextful.bounds"] == {
        "observed_at": "2030-02-01T00:00:00.000000000Z",
        "as_of_ingest": "2030-03-15T00:00:00.000000000Z",
        "inclusive": {"observed_at": False, "as_of_ingest": True},
    }
    assert "contextful.bounds" not in face("memory.recall", table="memory/facts", subject="acme")


@pytest.mark.rule("truncation-cause", "row-ceiling")
def test_a_limit_cuts_and_says_so(face: Any) -> None:
    answer = face("memory.recall", table="memory/facts", subject="acme", limit=2)

    assert recalled(face, limit=2) == ["Lee", "Pat"]
    assert answer["contextful.truncation"] == {"by": "rows", "ceiling": 2, "source": "request"}
    assert face("memory.recall", table="memory/facts", subject="acme", limit=4)["truncated"] is False


@pytest.mark.parametrize("table", ["memory/none", "memory/empty"])
def test_where_no_claim_landed_there_is_none(face: Any, table: str) -> None:
    assert face("memory.recall", table=table, subject="acme")["rows"] == []


def test_a_table_without_claims_is_refused(example: Any, face: Any) -> None:
    refusal = example.refusal("memory.recall", table="notes", subject="acme")

    assert refusal.code == "invalid_params"
    assert "valid_from" in refusal.message
    assert face.refusal("memory.recall", table="absent", subject="acme").code == "EnforceUnknownRelation"


@pytest.mark.parametrize("argument", ["observed_at", "as_of_ingest"])
def test_what_is_no_instant_is_refused(face: Any, argument: str) -> None:
    params = {"table": "memory/facts", "subject": "acme", argument: "soon"}
    refusal = face.refusal("memory.recall", **params)

    assert refusal.code == "invalid_params"
    assert argument in refusal.message


def test_times_that_are_text_are_compared_as_instants(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    columns = {"subject": "utf8", "object": "utf8", "valid_from": "utf8", "valid_to": "utf8"}
    rows = [
        {"subject": "acme", "object": "zoned", "valid_from": "2030-01-01T23:00:00-02:00", "valid_to": None},
        {"subject": "acme", "object": "no time", "valid_from": "sometime", "valid_to": None},
    ]
    store.table("facts", columns).run("r1", rows)
    face = face_of(store.root)
    held = [
        face("memory.recall", table="facts", subject="acme", observed_at=f"2030-01-0{day}T00:30:00Z")["rows"]
        for day in (1, 2, 3)
    ]

    assert [[row[1] for row in rows] for rows in held] == [[], [], ["zoned"]]


@pytest.mark.rule("paths-stay-inside")
def test_a_claim_made_of_rows_that_are_not_served_is_not_served_but_counted(
    make_context_store: Any, face_of: Any
) -> None:
    store = make_context_store()
    store.table("open", {"n": "int64"}).run("r1", [{"n": 1}])
    store.table("secret", {"n": "int64"}, policy={"rows": {"predicate": "true"}}).run("r1", [{"n": 1}])
    evidence = {
        "known": [{"table": "open", "run": "r1", "seq": 0}],
        "hidden": [{"table": "open", "run": "r1", "seq": 0}, {"table": "secret", "run": "r1", "seq": 0}],
        "absent": [{"table": "nowhere", "run": "r1", "seq": 0}],
        "none": [],
        "nameless": [{"run": "r1"}, {"table": None}],
        "many": [{"table": "open"}] * 257,
    }
    rows = [
        {**claim(name, name, "2030-01-01T00:00:00Z"), "evidence": json.dumps(cited)}
        for name, cited in evidence.items()
    ]
    rows += [
        {**claim(f"bad{text}", "bad", "2030-01-01T00:00:00Z"), "evidence": text} for text in ("{", None, "7")
    ]
    store.table("facts", {**COLUMNS, "evidence": "utf8"}).run("r1", rows)
    answer = face_of(store.root)("memory.recall", table="facts", subject="acme")

    assert [row[0] for row in answer["rows"]] == ["known"]
    assert answer["contextful.recall"] == {"suppressed": {"MemoryEvidenceUnresolved": len(rows) - 1}}
    assert "secret" not in repr(answer)
