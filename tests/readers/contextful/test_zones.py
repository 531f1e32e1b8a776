"""A table whose zone does not admit this machine: it is there, it shows no row, and answers say so."""

from __future__ import annotations

from typing import Any

import pytest

from collated_readers import RequestError
from collated_readers.contextful.serving import Service

ROWS = [{"id": "a", "title": "Solar", "body": "solar storage"}]
COLUMNS = {"id": "utf8", "title": "utf8", "body": "utf8"}
DAYS = {"near": "2030-01-01T00:00:00Z", "far": "2030-02-01T00:00:00Z"}
FAR = {"policy": {"zone": {"allow": ["on-prem:*"]}}}
EXCLUDED: list[dict[str, Any]] = [
    {"table": "far", "excluded": True, "rows_dropped": None, "columns_masked": []}
]


@pytest.fixture
def store(make_context_store: Any) -> Any:
    """A store of two tables with one row each: `near`, and `far`, which is for other machines."""
    store = make_context_store()
    for name, declared in (("near", {"result_cache": "10m"}), ("far", {**FAR, "result_cache": "10m"})):
        table = store.table(name, COLUMNS, **declared)
        table.run("r1", ROWS, DAYS[name])
        table.ledger("r1", [{"request_id": "req-1"}])
    return store


@pytest.fixture
def face(store: Any) -> Any:
    service = Service(256 << 20, 1)

    def ask(tool: str, **params: Any) -> Any:
        return service.answer(tool, str(store.root), params, 30.0)

    return ask


@pytest.mark.rule("restriction-block", "describe-zone")
def test_a_statement_reads_nothing_of_it_and_says_so(face: Any) -> None:
    answer = face("context.query", sql="SELECT (SELECT count(*) FROM near), (SELECT count(*) FROM far)")

    assert answer["rows"] == [["1", "0"]]
    assert answer["contextful.restriction"] == {
        "zone": "local:device",
        "incognito": False,
        "relations": EXCLUDED,
    }
    assert "contextful.restriction" not in face("context.query", sql="SELECT id FROM near")
    admitted = {one["table"]: one["zone_admitted"] for one in face("context.describe")["tables"]}
    assert (admitted["near"], admitted["far"]) == (True, False)


@pytest.mark.rule("hit-identical", "restriction-block")
def test_an_answer_that_is_given_again_says_so_again(face: Any) -> None:
    sql = "SELECT near.id FROM near LEFT JOIN far USING (id)"
    first = face("context.query", sql=sql)

    assert first["contextful.restriction"]["relations"] == EXCLUDED
    assert face("context.query", sql=sql) == first


@pytest.mark.rule("excluded-arm")
def test_a_ranking_has_no_candidate_of_it_and_names_it(face: Any) -> None:
    answer = face("corpus.retrieve", query="solar storage")

    tables = [dict(zip(answer["columns"], row, strict=True))["_table"] for row in answer["rows"]]
    assert tables == ["near"]
    assert answer["contextful.restriction"]["relations"] == EXCLUDED
    assert "contextful.restriction" not in face("corpus.retrieve", query="solar storage", tables=["near"])


@pytest.mark.rule("incognito")
@pytest.mark.parametrize("is_incognito", [False, True])
def test_an_incognito_project_is_named_as_one(store: Any, face: Any, is_incognito: bool) -> None:
    store.declare(f"[project.zone]\nincognito_default = {str(is_incognito).lower()}")
    answer = face("context.query", sql="SELECT id FROM far")

    assert answer["rows"] == []
    assert answer["contextful.restriction"]["incognito"] is is_incognito


@pytest.mark.rule("scoped-ledger", "file-listing")
def test_neither_its_ledger_nor_its_files_are_for_this_machine(face: Any) -> None:
    with pytest.raises(RequestError) as closed:
        face("context.query", sql="SELECT * FROM far__requests")
    assert closed.value.code == "LedgerNotTenantScoped"
    assert {table for table, _ in face("context.files")["rows"]} == {"near"}


def test_a_search_and_a_grep_find_nothing_of_it_and_the_stores_facts_say_why(face: Any) -> None:
    assert [one["id"] for one in face("store.matches", query="solar storage", limit=5)] == ["near/r1/0"]
    lines = face("store.grep", pattern="solar", is_regex=False, within=[], limit=5, among=None)
    assert {one["id"] for one in lines} == {"near/r1/0"}
    assert [text["id"] for text in face("store.texts", after=None)] == ["near/r1/0"]
    counted = face("store.counts")
    assert counted["rows"] == 1
    assert [one["message"] for one in counted["details"]["warnings"]] == [
        "table far: its zone does not admit local:device, so it shows no rows"
    ]
    assert counted["details"]["committed_at"] == DAYS["near"]
