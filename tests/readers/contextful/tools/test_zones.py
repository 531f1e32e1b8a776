"""A table whose zone leaves out this machine: it is known, nothing of it is shown, and the answer says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collated_readers import Budget
from collated_readers.contextful.tools.grep import grep
from collated_readers.contextful.tools.rows import row
from collated_readers.contextful.wire import GrepParams, RowParams


@pytest.fixture
def face(make_context_store: Any, face_of: Any) -> Any:
    store = make_context_store()
    away = store.table("away", {"word": "utf8"}, policy={"zone": {"allow": ["on-prem:*"]}})
    away.run("r1", [{"word": "hidden"}])
    away.ledger("r1", [{"request_id": "hidden"}])
    store.table("home", {"word": "utf8"}, policy={"zone": {"allow": ["local:device"]}}).run(
        "r1", [{"word": "shown"}]
    )
    claim = {"subject": "acme", "valid_from": "2030-01-01T00:00:00Z", "valid_to": None}
    columns = {"subject": "utf8", "valid_from": "timestamp", "valid_to": "timestamp", "evidence": "utf8"}
    claims = [{**claim, "evidence": json.dumps([{"table": table}])} for table in ("away", "home")]
    store.table("facts", columns).run("r1", claims)
    return face_of(store.root)


@pytest.mark.rule("restriction-block", "incognito")
def test_its_rows_are_none_and_the_answer_says_why(face: Any) -> None:
    answer = face("context.query", sql="SELECT word FROM away UNION ALL SELECT word FROM home")
    block = answer["contextful.restriction"]
    (withheld,) = block["relations"]

    assert answer["rows"] == [["shown"]]
    assert (block["zone"], block["incognito"]) == ("local:device", False)
    assert (withheld["table"], withheld["excluded"]) == ("away", True)
    assert "contextful.restriction" not in face("context.query", sql="SELECT word FROM home")


@pytest.mark.rule("describe-zone")
def test_it_is_described_as_not_admitted(face: Any) -> None:
    listed = {one["table"]: one["zone_admitted"] for one in face("context.describe")["tables"]}
    away = face("context.describe", table="away")

    assert (listed["away"], listed["home"]) == (False, True)
    assert (away["zone_admitted"], away["zone"], away["row_count"]) == (False, ["on-prem:*"], 0)


@pytest.mark.rule("index-visibility")
def test_a_citation_of_it_is_unreadable(face: Any) -> None:
    answer = face("context.reference", table="away", run_id="r1", row_seq=0)

    assert answer["rows"] == [[False, "unreadable"]]


@pytest.mark.rule("scoped-ledger")
def test_its_ledger_is_closed_and_says_why(face: Any) -> None:
    refusal = face.refusal("context.query", sql="SELECT * FROM away__requests")

    assert refusal.code == "LedgerNotTenantScoped"
    assert "zone" in refusal.message


@pytest.mark.rule("file-listing", "file-preview-target")
def test_its_files_are_neither_listed_nor_shown(face: Any) -> None:
    path = "tables/{}/data/runs/r1/ingest-a/part-00000.parquet"

    assert [table for table, _ in face("context.files")["rows"]] == ["facts", "home"]
    assert face("context.file", path=path.format("home"))["rows"][0][0] == "shown"
    assert face.refusal("context.file", path=path.format("away")).code == "FilePreviewNotATable"


def test_nothing_of_it_is_found_read_or_concluded(face: Any) -> None:
    params = GrepParams(pattern="hidden", is_regex=False, within=[], limit=5)
    recalled = face("memory.recall", table="facts", subject="acme")

    assert grep(face.a_call(), params, Budget.lasting(60)) == []
    assert row(face.a_call(), RowParams("away/r1/0")) is None
    assert len(recalled["rows"]) == 1
    assert recalled["contextful.recall"] == {"suppressed": {"MemoryEvidenceUnresolved": 1}}
