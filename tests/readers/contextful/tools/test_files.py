from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

NOTES = [
    "tables/notes/data/runs/run-0003/ingest-b/part-00000.parquet",
    "tables/notes/data/runs/run-0004/ingest-b/part-00000.parquet",
    "tables/notes/data/runs/run-0007/ingest-a/part-00000.parquet",
    "tables/notes/data/snapshots/snapshot-01894320000000000000/part-00000.parquet",
]


@pytest.mark.rule("file-listing", "paths-stay-inside")
def test_files_are_named_from_the_stores_root(example: Any) -> None:
    answer = example("context.files")

    assert answer["columns"] == ["table", "path"]
    assert answer["rows"] == sorted(answer["rows"])
    assert [path for table, path in answer["rows"] if table == "notes"] == NOTES
    assert not any("requests" in path or path.startswith("/") for _, path in answer["rows"])
    assert "contextful.unavailable" not in answer


@pytest.mark.rule("file-listing", "bound-listing")
def test_files_are_those_of_the_state_that_is_asked_for(example: Any) -> None:
    rows = example("context.files", as_of="2030-01-10T03:00:00Z")["rows"]

    assert [path for table, path in rows if table == "notes"] == [
        "tables/notes/data/runs/run-0001/ingest-a/part-00000.parquet"
    ]


@pytest.mark.rule("file-listing")
def test_a_table_that_is_not_served_has_no_files_and_one_that_is_damaged_says_so(
    make_context_store: Any, face_of: Any
) -> None:
    store = make_context_store()
    store.table("good", {"n": "int64"}).run("r1", [{"n": 1}])
    store.table("secret", {"n": "int64"}, policy={"rows": {"predicate": "true"}}).run("r1", [{"n": 1}])
    bad = store.table("bad", {"n": "int64"})
    bad.run("r1", [{"n": 1}])
    store.write(bad.folder / "data" / "runs" / "r1" / "ingest-a" / "_manifest.json", "{")
    face = face_of(store.root)
    answer = face("context.files")

    assert answer["rows"] == [["good", "tables/good/data/runs/r1/ingest-a/part-00000.parquet"]]
    (unavailable,) = answer["contextful.unavailable"]
    assert (unavailable["table"], unavailable["code"]) == ("bad", "StoreManifestUnreadable")
    assert "secret" not in repr(answer)
    assert {one["table"]: "fault" in one for one in face("context.describe")["tables"]}["bad"]


@pytest.mark.rule("file-preview-target", "bare-name")
def test_a_file_shows_the_rows_of_its_run_that_the_table_shows(example: Any) -> None:
    shown = {path: example("context.file", path=path) for path in NOTES[:3]}

    assert [[row[0] for row in one["rows"]] for one in shown.values()] == [["n2"], ["n4"], ["n5"]]
    assert shown[NOTES[0]]["columns"][:2] == ["note_id", "title"]


@pytest.mark.rule("file-preview-target")
@pytest.mark.parametrize(("node", "row_id"), [("ingest-a", "e1"), ("ingest-b", "e2")])
def test_a_run_of_the_same_id_on_another_node_is_another_file(example: Any, node: str, row_id: str) -> None:
    rows = example("context.file", path=f"tables/events/data/runs/r1/{node}/part-00000.parquet")["rows"]

    assert [row[0] for row in rows] == [row_id]


@pytest.mark.rule("file-preview-target", "paths-stay-inside")
@pytest.mark.parametrize(
    "path",
    [
        NOTES[3],  # a snapshot's part, which is no one run's
        "tables/notes/requests/run-0001.ingest-a.parquet",
        "tables/notes/data/runs/run-0003/ingest-b/../ingest-b/part-00000.parquet",
        "tables/../tables/" + NOTES[0].removeprefix("tables/"),
        "/" + NOTES[0],
        "./" + NOTES[0],
        NOTES[0].upper(),
        NOTES[0].replace("part-00000", "part-*"),
        "tables/notes/data/runs/run-0001/ingest-a/part-00000.parquet",  # folded: nothing reads it
        "tables/notes/data/runs/run-0001/ingest-a/stray.parquet",
        "tables/notes/data/runs/run-0005/ingest-a/part-00000.parquet",  # never committed
        "tables/absent/data/runs/r1/ingest-a/part-00000.parquet",
        "tables/notes/schema.json",
        "contextful.toml",
        "",
    ],
)
def test_what_is_no_part_of_a_run_that_is_read_is_no_table(example: Any, path: str) -> None:
    assert example.refusal("context.file", path=path).code == "FilePreviewNotATable"


@pytest.mark.rule("file-preview-target")
def test_a_file_of_a_table_that_is_not_served_is_refused_as_one_that_is_not_there(
    make_context_store: Any, face_of: Any
) -> None:
    store = make_context_store()
    policy = {"rows": {"predicate": "true"}}
    store.table("secret", {"n": "int64"}, policy=policy).run("r1", [{"n": 1}])
    face = face_of(store.root)
    path = "tables/{}/data/runs/r1/ingest-a/part-00000.parquet"
    there = face.refusal("context.file", path=path.format("secret"))
    absent = face.refusal("context.file", path=path.format("absent"))

    assert there.message.replace("secret", "absent") == absent.message


@pytest.mark.rule("file-preview-target", "miss-wait")
def test_a_part_that_is_gone_is_named(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    table = store.table("events", {"n": "int64"})
    table.run("r1", [{"n": 1}])
    face = face_of(store.root)
    path = "tables/events/data/runs/r1/ingest-a/part-00000.parquet"
    assert face("context.file", path=path)["rows"]
    Path(store.root, path).unlink()

    assert face.refusal("context.file", path=path).code == "ReadPartUnavailable"
    (unavailable,) = face("context.files")["contextful.unavailable"]
    assert unavailable["code"] == "ReadPartUnavailable"
