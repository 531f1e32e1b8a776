"""What the federation asks of rows: one by its name, a grep over all, the table of contents."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import Budget, RequestError, StoreError
from collated_readers.contextful.tools.grep import Pages, grep
from collated_readers.contextful.tools.index import index
from collated_readers.contextful.tools.rows import RowName, named, row, text_of
from collated_readers.contextful.wire import GrepParams, Line, RowParams


@given(table=st.from_regex(r"[a-z]+(/[a-z.]+){0,2}", fullmatch=True), seq=st.integers(0, 2**63 - 1))
def test_the_name_of_a_row_leads_back_to_it(table: str, seq: int) -> None:
    name = RowName(table, "run-0001", seq)

    assert named(str(name)) == name


@pytest.mark.parametrize(
    "text",
    ["", "notes", "notes/1", "/r1/1", "notes//1", "notes/r1/", "notes/r1/01", "notes/r1/-1", "notes/r1/١"],
)
def test_what_is_no_name_names_nothing(text: str) -> None:
    assert named(text) is None
    assert named(f"notes/r1/{2**63}") is None


def test_a_row_says_its_cells_one_a_line(example: Any) -> None:
    found = row(example.a_call(), RowParams("notes/run-0007/0"))

    assert found is not None
    assert (found.id, found.doc, found.heading_path) == ("notes/run-0007/0", "notes", "run-0007")
    assert "title: Heat pump orders\nbody: Storage and batteries ship together.\n" in found.text
    assert "updated_at: 2030-01-14T00:00:00Z" in found.text
    assert "_run_id" not in found.text


def test_cells_that_are_no_text_are_json_and_nulls_are_left_out() -> None:
    cells = {"a": "x", "n": 1.5, "none": None, "list": ["1", None], "_run_id": "r1"}

    assert text_of(cells) == 'a: x\nn: 1.5\nlist: ["1",null]'


def test_two_nodes_rows_of_one_name_are_both_said(example: Any) -> None:
    found = row(example.a_call(), RowParams("events/r1/0"))

    assert found is not None
    assert found.text == "id: e1\nkind: open\n\nid: e2\nkind: close"


@pytest.mark.parametrize(
    "name", ["notes/run-0001/0", "notes/run-0007/9", "secret/r1/0", "notes__requests/r/0", "x"]
)
def test_a_row_that_is_not_shown_is_none(example: Any, name: str) -> None:
    assert row(example.a_call(), RowParams(name)) is None


# ------------------------------------------------------------------------------------ grep


def found(face: Any, pattern: str, pages: Pages = Pages(), **params: Any) -> list[Line]:  # noqa: B008 - frozen
    given: dict[str, Any] = {"is_regex": False, "within": [], "limit": 100, **params}
    return grep(face.a_call(), GrepParams(pattern=pattern, **given), Budget.lasting(60), pages)


def test_the_first_matching_line_of_each_row_is_found_in_the_order_of_ids(example: Any) -> None:
    lines = found(example, "STORAGE")

    assert [line.id for line in lines] == [
        "kb/articles/run-0001/0",
        "kb/articles/run-0001/2",
        "notes/run-0002/0",
        "notes/run-0003/1",
        "notes/run-0007/0",
    ]
    assert (lines[0].doc, lines[0].line) == ("kb/articles", "Grid storage")
    assert [line.id for line in found(example, r"stor\w+ in", is_regex=True)] == ["kb/articles/run-0001/2"]


def test_only_tables_that_pass_the_filter_and_rows_that_are_asked_for_are_looked_at(example: Any) -> None:
    assert {line.doc for line in found(example, "storage", within=["kb"])} == {"kb/articles"}
    assert [line.id for line in found(example, "storage", among=["notes/run-0007/0", "notes/r/1"])] == [
        "notes/run-0007/0"
    ]
    assert found(example, "storage", among=[]) == []


def test_a_limit_is_the_beginning_of_all(example: Any) -> None:
    whole = found(example, "e")

    assert [found(example, "e", limit=n) for n in range(len(whole) + 1)] == [
        whole[:n] for n in range(len(whole) + 1)
    ]


def test_columns_of_the_format_itself_are_not_looked_at(example: Any) -> None:
    assert found(example, "site-a") == []
    assert found(example, "run-0001") == []


def test_letters_that_count_as_one_are_found_in_other_writings(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    texts = ["KELVIN", "\u212aelvin", "kelvın", "groß", "GROSS", "Ünder", "ünder", "two\nlines of it"]
    store.table("words", {"word": "utf8"}).run("r1", [{"word": text} for text in texts])
    face = face_of(store.root)

    for pattern in ["kelvin", "KELVIN", "groß", "ünder", "Ünder", "lines", "o\nl"]:
        for is_regex in (False, True):
            expected = [
                f"words/r1/{n}"
                for n, text in enumerate(texts)
                if any(_finds(pattern, line, is_regex=is_regex) for line in text.splitlines())
            ]
            assert [line.id for line in found(face, pattern, is_regex=is_regex)] == expected, pattern


def _finds(pattern: str, line: str, *, is_regex: bool) -> bool:
    if is_regex:
        import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

        return regex.search(pattern, line, regex.IGNORECASE) is not None
    return pattern.encode().lower() in line.encode().lower()


def test_pages_and_nested_tables_come_in_the_order_of_ids(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    for table in ("a", "a-b", "a/b", "a/z/b", "b"):
        made = store.table(table, {"word": "utf8"})
        for run in ("a1", "b", "z"):
            for node in ("ingest-a", "ingest-b"):
                made.run(run, [{"word": f"word {n}"} for n in range(12)], node=node)
    face = face_of(store.root)
    whole = found(face, "word", limit=10_000)
    paged = found(face, "word", Pages(1, 3), limit=10_000)

    ids = [line.id for line in whole]
    assert ids == sorted(set(ids), key=str.encode)
    assert len(ids) == 5 * 3 * 12
    assert paged == whole


def test_a_name_that_fills_a_page_does_not_hold_up_the_rest(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    table = store.table("a", {"word": "utf8"})
    for node in range(5):
        table.run("r1", [{"word": "word"}], node=f"n{node}")
    table.run("r2", [{"word": "word"}])

    assert [line.id for line in found(face_of(store.root), "word", Pages(2, 2))] == ["a/r1/0", "a/r2/0"]


def test_a_pattern_is_refused_as_everywhere(example: Any) -> None:
    for pattern, is_regex in [("", False), ("x" * 201, False), ("(", True)]:
        with pytest.raises(RequestError, match="pattern"):
            found(example, pattern, is_regex=is_regex)


def test_a_grep_ends_with_its_budget(example: Any) -> None:
    params = GrepParams(pattern="e", is_regex=False, within=[], limit=10)
    with pytest.raises(StoreError, match="in time"):
        grep(example.a_call(), params, Budget.lasting(0))


def test_a_damaged_table_does_not_hide_the_others(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    for name in ("a", "b", "c"):
        store.table(name, {"word": "utf8"}).run("r1", [{"word": "found"}])
    store.write(store.root / "tables" / "b" / "schema.json", "{")
    face = face_of(store.root)

    assert [line.id for line in found(face, "found")] == ["a/r1/0", "c/r1/0"]
    assert re.search(r"^b +\(StoreManifestUnreadable\)$", index(face.a_call()), re.MULTILINE)


# ----------------------------------------------------------------------------------- index


def test_the_index_has_a_line_for_each_table(example: Any) -> None:
    head, *lines = index(example.a_call()).splitlines()

    assert head == "Context store research · 9 tables · 18 rows"
    assert "notes                           Analyst notes.  (5)" in lines
    assert lines == sorted(lines)


def test_the_index_of_a_prefix_has_its_tables(example: Any) -> None:
    head, *lines = index(example.a_call(), "kb/").splitlines()

    assert head == "Context store research · 1 tables · 3 rows"
    assert [line.split()[0] for line in lines] == ["kb/articles"]


# ------------------------------------------------------------------------------------ names


@pytest.mark.rule("quoted-identifiers")
@pytest.mark.parametrize(
    "column", ['a "b" c', '"); SELECT 1; --', "select", "ключ 键", "a.b", "a'b", "$1", "?", "{x}"]
)
def test_a_column_may_be_named_anything(make_context_store: Any, face_of: Any, column: str) -> None:
    store = make_context_store()
    hints = {column: "odd"}
    table = store.table(
        "a.b-c/d", {column: "utf8"}, column_hints=hints, primary_key=[column], order_by=column
    )
    table.run("r-1", [{column: "found here"}, {column: "and here"}])
    face = face_of(store.root)
    name = column.replace('"', '""')

    assert [line.id for line in found(face, "here")] == ["a.b-c/d/r-1/0", "a.b-c/d/r-1/1"]
    assert face("context.describe", table="a.b-c/d")["column_hints"] == hints
    assert face("context.describe", table="a.b-c/d")["row_count"] == 2
    shown = face("context.query", sql=f'SELECT "{name}" FROM "a.b-c/d" ORDER BY 1')  # noqa: S608 - above
    assert (shown["columns"], shown["rows"]) == ([column], [["and here"], ["found here"]])
    said = row(face.a_call(), RowParams("a.b-c/d/r-1/0"))
    assert said is not None
    assert said.text == f"{column}: found here"
    preview = face("context.file", path="tables/a.b-c/d/data/runs/r-1/ingest-a/part-00000.parquet")
    assert preview["columns"][0] == column
