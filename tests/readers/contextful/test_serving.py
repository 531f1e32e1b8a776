"""What a worker keeps between questions, which shows in no answer but in how soon it comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collated_readers import RequestError
from collated_readers.contextful.serving import Service

MEMORY = 256 << 20
NOTES = {"id": "utf8", "body": "utf8"}
KEYED = {"primary_key": ["id"]}


class Face:
    """A service and a store; `face(tool, ...)` asks."""

    def __init__(self, service: Service, root: Path) -> None:
        self.service = service
        self.root = root

    def __call__(self, tool: str, **params: Any) -> Any:
        return self.service.answer(tool, str(self.root), params, 30.0)

    def rows(self, sql: str, **params: Any) -> Any:
        return self("context.query", sql=sql, **params)["rows"]

    def cache(self, sql: str, **params: Any) -> str | None:
        """Return what the internals say of the cache."""
        answer = self("context.query", sql=sql, internals=True, **params)
        found: str | None = answer["contextful.internals"].get("cache")
        return found


@pytest.fixture
def face_of() -> Callable[..., Face]:
    """`face_of(root, **service)` asks a service of its own."""

    def make(root: Path, **given: int) -> Face:
        return Face(Service(MEMORY, 1, **given), root)

    return make


@pytest.fixture
def store(make_context_store: Any) -> Any:
    return make_context_store()


# ------------------------------------------------------------------------- sessions


@pytest.mark.rule("session-pool", "connection-views")
def test_a_session_is_used_again_under_the_same_bounds(store: Any, face_of: Callable[..., Face]) -> None:
    store.table("t", NOTES).run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root)
    for sql in ("SELECT id FROM t", "SELECT body FROM t", "SELECT count(*) FROM t"):
        face.rows(sql)
    assert face.service.open_sessions == 1
    face.rows("SELECT id FROM t", as_of="2031-01-01")
    assert face.service.open_sessions == 2


@pytest.mark.rule("change-misses", "session-pool", "pool-entries", "frontier-invalidates")
def test_whatever_is_committed_is_seen_by_the_next_statement(
    store: Any, face_of: Callable[..., Face]
) -> None:
    table = store.table("t", NOTES, **KEYED)
    table.run("r1", [{"id": "a", "body": "first"}], at="2030-01-01T00:00:00Z")
    face = face_of(store.root)
    sql = "SELECT id, body FROM t ORDER BY id"
    assert face.rows(sql) == [["a", "first"]]
    assert face.rows(sql, as_of="2031-01-01") == [["a", "first"]]

    table.run("r2", [{"id": "a", "body": "second"}, {"id": "b", "body": "other"}], at="2030-01-02T00:00:00Z")
    assert face.rows(sql) == [["a", "second"], ["b", "other"]]
    assert face.service.open_sessions == 1, "sessions of the state before are let go"

    table.fold("2030-01-03T00:00:00Z")
    table.retire("r1/ingest-a")
    assert face.rows(sql) == [["a", "second"], ["b", "other"]]

    table.ledger("r1", [{"request_id": "req-1"}])
    assert face.rows("SELECT request_id FROM t__requests") == [["req-1"]]

    store.quiet("later", columns={"n": "int64"})
    assert face.rows("SELECT count(*) FROM later") == [["0"]]


@pytest.mark.rule("bound-arguments", "in-band-error")
@pytest.mark.parametrize("tool", ["context.query", "context.describe", "corpus.retrieve"])
@pytest.mark.parametrize(("as_of", "ids"), [("0001-01-01", []), ("9999-12-30T23:59:59.999999999Z", ["a"])])
def test_a_bound_may_be_any_instant(
    store: Any, face_of: Callable[..., Face], tool: str, as_of: str, ids: list[str]
) -> None:
    store.table("t", NOTES, result_cache="10m").run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root)
    asked = {"context.query": {"sql": "SELECT id FROM t"}, "corpus.retrieve": {"query": ""}}
    answer = face(tool, as_of=as_of, **asked.get(tool, {"table": "t"}))

    assert answer.get("row_count", len(answer.get("rows", ids))) == len(ids)


@pytest.mark.slow
@pytest.mark.rule("pool-entries")
def test_sixteen_sessions_are_kept_and_the_oldest_goes_first(
    store: Any, face_of: Callable[..., Face]
) -> None:
    store.table("t", NOTES).run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root)
    for day in range(1, 21):
        face.rows("SELECT id FROM t", as_of=f"2030-02-{day:02}")
    assert face.service.open_sessions == 16


# ------------------------------------------------------------------------- results


@pytest.mark.rule("cache-is-opt-in", "hit-identical")
def test_an_answer_is_given_again_byte_by_byte(store: Any, face_of: Callable[..., Face]) -> None:
    table = store.table("t", {"n": "int64", "x": "float64"}, result_cache="10m")
    table.run("r1", [{"n": 2**60 + n, "x": n / 7} for n in range(30)])
    face = face_of(store.root)
    sql = "SELECT n, x FROM t WHERE n > $least ORDER BY n"
    given = {"parameters": {"least": {"type": "integer", "value": 5}}, "as_of": "2031-01-01"}
    first = face("context.query", sql=sql, max_response_bytes=600, **given)

    assert first["contextful.truncation"]["by"] == "bytes"
    assert [face.cache(sql, **given) for _ in range(2)] == ["hit", "hit"]
    assert json.dumps(face("context.query", sql=sql, max_response_bytes=600, **given)) == json.dumps(first)


@pytest.mark.rule("hit-identical", "result-key")
def test_internals_tell_a_hit_from_a_miss(store: Any, face_of: Callable[..., Face]) -> None:
    store.table("t", NOTES, result_cache="10m").run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root)

    assert [face.cache("SELECT id FROM t") for _ in range(2)] == ["miss", "hit"]
    assert face.cache("SELECT body FROM t") == "miss"
    assert face.cache("SELECT id FROM t", as_of="2031-01-01") == "miss"
    assert face.cache("SELECT id FROM t", as_of="2031-01-01") == "hit"


@pytest.mark.rule("cache-is-opt-in")
@pytest.mark.parametrize("other", [{}, {"result_cache": "10m", "private": True}], ids=["silent", "private"])
def test_one_table_that_does_not_allow_it_is_enough(
    store: Any, face_of: Callable[..., Face], other: dict[str, Any]
) -> None:
    for name, declared in (("t", {"result_cache": "10m"}), ("u", other)):
        store.table(name, NOTES, **declared).run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root)

    for _ in range(2):
        assert face.cache("SELECT t.id FROM t JOIN u USING (id)") is None


@pytest.mark.rule("cache-is-opt-in")
def test_what_retention_hides_is_computed_each_time(store: Any, face_of: Callable[..., Face]) -> None:
    retained = {"retain_rows": {"column": "_ingested_at", "age": "30d"}, "result_cache": "10m"}
    store.table("t", NOTES, **retained).run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root)

    assert [face.cache("SELECT id FROM t") for _ in range(2)] == [None, None]


@pytest.mark.rule("volatile-bypasses")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, random() FROM t",
        "SELECT id FROM t WHERE now() > TIMESTAMPTZ '2020-01-01 00:00:00Z'",
        "SELECT id, current_timestamp FROM t",
        "WITH x AS (SELECT id, uuid() AS u FROM t) SELECT u FROM x",
        "SELECT id FROM t USING SAMPLE 1 ROWS",
    ],
)
def test_what_asks_the_clock_or_the_dice_is_computed_each_time(
    store: Any, face_of: Callable[..., Face], sql: str
) -> None:
    store.table("t", NOTES, result_cache="10m").run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root)

    assert [face.cache(sql) for _ in range(2)] == [None, None]


@pytest.mark.rule("frontier-invalidates")
@pytest.mark.parametrize("change", ["commit", "fold", "ledger"])
def test_a_change_of_a_table_ends_what_was_kept_of_it(
    store: Any, face_of: Callable[..., Face], change: str
) -> None:
    table = store.table("t", NOTES, result_cache="10m", **KEYED)
    table.run("r1", [{"id": "a", "body": "x"}], at="2030-01-01T00:00:00Z")
    face = face_of(store.root)
    sql = "SELECT id FROM t ORDER BY id"
    assert [face.cache(sql), face.cache(sql)] == ["miss", "hit"]
    if change == "commit":
        table.run("r2", [{"id": "b", "body": "y"}], at="2030-01-02T00:00:00Z")
    elif change == "fold":
        table.fold("2030-01-02T00:00:00Z")
    else:
        table.ledger("r1", [{"request_id": "req-1"}])

    assert face.cache(sql) == "miss"
    assert face.rows(sql) == ([["a"], ["b"]] if change == "commit" else [["a"]])


@pytest.mark.rule("budget")
def test_a_service_without_a_budget_keeps_no_answers(store: Any, face_of: Callable[..., Face]) -> None:
    store.table("t", NOTES, result_cache="10m").run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root, results_bytes=0)

    assert [face.cache("SELECT id FROM t") for _ in range(2)] == ["miss", "miss"]


# ------------------------------------------------------------------------- ceilings, counts, builds


@pytest.mark.rule("wide-number-shape", "query-binding", "hit-identical")
@pytest.mark.parametrize("declared", [{}, {"result_cache": "10m"}], ids=["computed", "kept"])
def test_a_bound_number_has_the_cell_of_its_own_width_whatever_was_bound_before(
    store: Any, face_of: Callable[..., Face], declared: dict[str, Any]
) -> None:
    store.table("t", NOTES, **declared).run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root)
    numbers = [5, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**127 - 1, 0, -(2**31), -(2**31) - 1, -(2**63) - 1]
    for number in numbers * 2:
        parameters = {"x": {"type": "integer", "value": number}}
        ((cell,),) = face.rows("SELECT $x FROM t", parameters=parameters)
        assert cell == (number if -(2**31) <= number < 2**31 else str(number))


@pytest.mark.rule("budget-arguments")
def test_a_ceiling_of_time_may_be_longer_than_anybody_waits(store: Any, face_of: Callable[..., Face]) -> None:
    store.table("t", NOTES).run("r1", [{"id": "a", "body": "x"}])

    assert face_of(store.root).rows("SELECT id FROM t", max_duration_ms=2**63 - 1) == [["a"]]


@pytest.mark.rule("raw-row-ceiling", "row-ceiling")
def test_a_join_is_held_to_the_least_ceiling_of_its_tables(store: Any, face_of: Callable[..., Face]) -> None:
    for name, most in (("t", 5), ("u", 3)):
        table = store.table(name, {"n": "int64"}, policy={"limits": {"max_rows": most}})
        table.run("r1", [{"n": n} for n in range(9)])
    answer = face_of(store.root)("context.query", sql="SELECT t.n FROM t JOIN u USING (n) ORDER BY 1")

    assert answer["rows"] == [["0"], ["1"], ["2"]]
    assert answer["contextful.truncation"] == {"by": "rows", "ceiling": 3, "source": "table"}


@pytest.mark.rule("engine-composed-ceiling", "coverage-is-a-count")
def test_counts_are_of_all_rows_whatever_a_ranking_or_a_face_may_deliver(
    store: Any, face_of: Callable[..., Face]
) -> None:
    table = store.table("t", NOTES)
    sql = "SELECT range::VARCHAR AS id, 'solar storage' AS body FROM range(10500)"
    table.run_of("r1", sql, "2030-01-01T00:00:00Z")
    face = face_of(store.root)
    delivered = face("context.query", sql="SELECT id FROM t")

    assert (len(delivered["rows"]), delivered["truncated"]) == (10_000, True)
    assert face("context.describe", table="t")["row_count"] == 10_500
    assert face("store.counts")["rows"] == 10_500
    ranked = face("corpus.retrieve", query="solar storage", limit=5)
    assert len(ranked["rows"]) == 5
    assert face.rows("SELECT count(*) FROM t WHERE body LIKE '%solar%'") == [["10500"]]
    assert face.rows("SELECT count(*) FROM t WHERE body LIKE '%wind%'") == [["0"]]


@pytest.mark.rule("engine-composed-ceiling")
def test_the_texts_for_an_index_are_those_of_all_rows(store: Any, face_of: Callable[..., Face]) -> None:
    sql = "SELECT range::VARCHAR AS id, 'solar ' || range AS body FROM range(10500)"
    store.table("t", NOTES).run_of("r1", sql, "2030-01-01T00:00:00Z")
    face = face_of(store.root)
    names: list[str] = []
    after = None
    while page := face("store.texts", after=after):
        names += [text["id"] for text in page]
        after = page[-1]["id"]

    assert len(set(names)) == len(names) == 10_500


@pytest.mark.rule("consumer-comparison", "resolved-echo", "pinned-schema")
def test_two_answers_say_by_their_builds_whether_they_are_of_one(
    store: Any, face_of: Callable[..., Face]
) -> None:
    table = store.table("model", {"n": "int64"})
    face = face_of(store.root)
    builds: list[Any] = []
    for number in (1, 2):
        table.run(f"r{number}", [{"n": number}], at=f"2030-01-0{number}T00:00:00Z")
        publish: dict[str, Any] = {"build_id": f"build-{number}", "inputs": [], "watermark": None}
        table.fold(f"2030-01-0{number}T12:00:00Z", publish=publish)
        for _ in range(2):
            answer = face("context.query", sql="SELECT count(*) FROM model")
            builds.append(answer["contextful.resolved"]["model"]["build_id"])

    assert builds == ["build-1", "build-1", "build-2", "build-2"]
    pinned = face("context.query", sql="SELECT n FROM model", pin={"model": "build-1"})
    assert pinned["contextful.resolved"]["model"]["build_id"] == "build-1"
    assert pinned["rows"] == [["1"]]


# ------------------------------------------------------------------------- whose text, which project


@pytest.mark.rule("project-relations", "declaration-default", "declaration-set")
def test_the_owner_sees_all_tables_that_are_there_or_declared_beside_the_store(
    store: Any, face_of: Callable[..., Face]
) -> None:
    store.table("stored", NOTES).run("r1", [{"id": "a", "body": "x"}])
    store.quiet("declared", columns={"n": "int64"})
    store.pipeline("feed.toml", '[pipeline]\n[[pipeline.tables]]\nname = "piped"\n')
    face = face_of(store.root)

    listed = {entry["table"] for entry in face("context.describe")["tables"]}
    assert {"stored", "declared", "piped"} <= listed
    assert face.rows("SELECT (SELECT count(*) FROM stored), (SELECT count(*) FROM declared)") == [["1", "0"]]


@pytest.mark.rule("one-statement", "single-read-only-statement")
@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "", ";", "SELECT 1; DROP TABLE t"])
def test_text_that_is_not_one_statement_runs_no_part_of_it(
    store: Any, face_of: Callable[..., Face], sql: str
) -> None:
    store.table("t", NOTES).run("r1", [{"id": "a", "body": "x"}])
    face = face_of(store.root)
    with pytest.raises(RequestError) as refused:
        face.rows(sql)

    assert refused.value.code in ("StatementNotReadOnly", "engine_error")
    assert face.rows("SELECT id FROM t") == [["a"]]


# ------------------------------------------------------------------------- names

ODD = (
    'a"b',
    "it's",
    "select",
    "x; DROP TABLE t",
    "%s",
    "{}",
    "$1",
    "?",
    "--",
    "/*",
    "tïtle",
    "a.b",
    " ",
    "\\",
)
ODDLY_KEYED = {"primary_key": ['a"b'], "order_by": "it's", "retrieve": {"text": ["select", "?", "%s"]}}


@pytest.mark.rule("quoted-identifiers")
def test_columns_may_be_named_anything_whatever_is_asked(store: Any, face_of: Callable[..., Face]) -> None:
    table = store.table("kb/odd", dict.fromkeys(ODD, "utf8"), **ODDLY_KEYED)
    for run, order in (("r1", "1"), ("r2", "2")):
        row = {name: f"solar {name}" for name in ODD}
        table.run(run, [{**row, 'a"b': "key", "it's": order}], at=f"2030-01-0{order}T00:00:00Z")
    face = face_of(store.root)
    (row,) = face.rows('SELECT * FROM "kb/odd"')

    assert row[: len(ODD)] == ["key", "2", *(f"solar {name}" for name in ODD[2:])]
    described = face("context.describe", table="kb/odd")
    assert described["row_count"] == 1
    assert [column["name"] for column in described["columns"]][: len(ODD)] == list(ODD)
    ranked = face("corpus.retrieve", query="solar", filter={"x; DROP TABLE t": "solar x; DROP TABLE t"})
    assert len(ranked["rows"]) == 1
    assert face("context.reference", table="kb/odd", run_id="r2", row_seq=0)["rows"] == [[True, "available"]]
    path = "tables/kb/odd/data/runs/r2/ingest-a/part-00000.parquet"
    assert face("context.file", path=path)["rows"][0][: len(ODD)] == row[: len(ODD)]
    lines = face("store.grep", pattern="solar", is_regex=False, within=[], limit=50, among=None)
    assert {line["id"] for line in lines} == {"kb/odd/r2/0"}
    assert [text["id"] for text in face("store.texts", after=None)] == ["kb/odd/r2/0"]
    assert "DROP TABLE" in face("store.row", id="kb/odd/r2/0")["text"]
