"""Reading chunks by place, their neighbours, grep and the table of contents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from collated_readers import Budget, Match, Pattern, RequestError
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.opening import StoreConnection, ask

MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
CodeStore = Callable[[str], StoreConnection]

READER = CodebaseIndex()
TYPER = "typer/index.sqlite"
BUDGET = Budget.lasting(600)


@pytest.fixture
def small(
    make_code_store: MakeStore, open_at: OpenAt, tmp_path: Path
) -> Callable[[dict[str, str]], StoreConnection]:
    """`small(files)` opens a store that the real program made of them."""
    return lambda files: open_at(make_code_store(tmp_path / "store.sqlite", files))


def _grep(db: StoreConnection, pattern: Pattern) -> tuple[Match, ...]:
    return ask(db, lambda db: READER.grep(db, pattern, BUDGET), BUDGET).matches


# --------------------------------------------------------------------------- ids


def test_every_chunk_has_an_id_of_its_own_that_leads_back_to_it(code_store: CodeStore) -> None:
    db = code_store("pydantic/index.sqlite")
    rows = db.execute(
        "SELECT content, path, line_start, line_end FROM chunks c JOIN files f ON f.id = c.file_id"
    )
    stored = sorted(rows.fetchall())
    ids = [record_id for record_id, _ in READER.texts(db)]
    assert len(set(ids)) == len(ids) == len(stored)
    assert any("#" in record_id for record_id in ids)
    records = [READER.read(db, record_id, 0).record for record_id in ids[::7]]
    assert all(
        (record.doc, record.text) in {(path, text) for text, path, _, _ in stored} for record in records
    )


@pytest.mark.parametrize(
    "name",
    ["a b.md", "x:1-2.md", "ü.md", "#2.md", "new\nline.md", "esc\x1b[31m.md", "%s{}?*[.md", "'; --.md"],
)
def test_a_path_may_hold_any_character(small: Callable[[dict[str, str]], StoreConnection], name: str) -> None:
    db = small({name: "# A zebra\n\nIt is blue.\n"})
    (match,) = _grep(db, Pattern("is blue"))
    assert (match.doc, match.line_number) == (name, 3)
    assert READER.read(db, match.id, 0).record.doc == name


@pytest.mark.parametrize(
    "record_id",
    [
        *(
            "",
            ":",
            "a.md",
            "a.md:9",
            "a.md:1-",
            "a.md:01-3",
            "a.md:1-3#0",
            "a.md:1-3#1",
            "a.md:1-3#9",
            "b.md:1-3",
        ),
        *("a.md:1-99999999999", "a.md:1-3 ", "a.md:1-3\n", "a.md:１-3", "\ud800:1-3", "a.md\0:1-3", "1"),
    ],
)
def test_an_id_of_another_spelling_is_unknown(
    small: Callable[[dict[str, str]], StoreConnection], record_id: str
) -> None:
    db = small({"a.md": "# A zebra\n\nIt is blue.\n"})
    assert READER.read(db, "a.md:1-3", 0).record.text == "# A zebra\n\nIt is blue."
    with pytest.raises(RequestError) as caught:
        READER.read(db, record_id, 0)
    assert caught.value.code == "unknown_id"


# --------------------------------------------------------------------------- reading


def test_around_a_chunk_is_the_files_own_text_in_line_order(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    for record_id in ("typer/utils.py:107-186", "typer/completion.py:30-39"):
        reading = READER.read(db, record_id, 2)
        record, around = reading.record, [each.id for each in reading.context]
        assert READER.neighbours(db, record_id, 1, 1).records[1] == record
        assert [each.id for each in READER.neighbours(db, record_id, 2, 2).records] == [
            *around[:2],
            record_id,
            *around[2:],
        ]
        assert (record.prev_id, record.next_id) == (around[1], around[2])
        assert all(each.kind != "doc" for each in reading.context)
        assert READER.read(db, around[2], 0).record.prev_id == record_id
    first = READER.read(db, "typer/completion.py:1-15", 5)
    assert first.record.prev_id is None
    assert first.record.next_id == first.context[0].id


def test_secrets_are_in_no_text(small: Callable[[dict[str, str]], StoreConnection]) -> None:
    lines = ["zebra", "-----BEGIN PRIVATE KEY-----", *(f"{n}" + "QUJD" * 15 for n in range(4))]
    text = "\n".join([*lines, "-----END PRIVATE KEY-----", "password = 'hunter2hunter2hunter2'", ""])
    db = small({"a.md": text})
    (match,) = _grep(db, Pattern("2QUJDQUJD"))
    assert "QUJD" not in match.line
    assert match.line_number == 5
    (other,) = _grep(db, Pattern("password"))
    assert "hunter2" not in other.line
    assert "password" in other.line
    body = READER.read(db, match.id, 0).record.text
    assert "QUJD" not in body
    assert "hunter2" not in body
    assert body.startswith("zebra")


# --------------------------------------------------------------------------- grep


def test_a_match_is_the_line_of_the_file_that_its_number_says(
    code_store: CodeStore, code_stores: Path
) -> None:
    db = code_store(TYPER)
    lines = (code_stores / "typer" / "read_at_line.jsonl").read_text(encoding="utf-8").splitlines()
    tried = 0
    for example in map(json.loads, lines):
        wanted = example["line_text"].strip()
        if not 8 <= len(wanted) <= 200 or "secret" in wanted:
            continue
        found = _grep(db, Pattern(wanted, within=(example["path"],), limit=100))
        tried += 1
        assert any(match.line_number == example["line"] for match in found) or len(found) > 1, example
        assert all(wanted.casefold() in match.line.casefold() for match in found)
    assert tried > 10


def test_derived_text_is_never_grepped(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    rows = db.execute("SELECT content FROM chunks WHERE kind = 'doc' AND content LIKE '##%:%'").fetchall()
    pattern = next(content for (content,) in rows if len(content) < 200)
    assert _grep(db, Pattern(pattern)) == ()
    kinds = {READER.read(db, match.id, 0).record.kind for match in _grep(db, Pattern("def ", limit=1000))}
    assert kinds == {"symbol_body", "window"}


def test_grep_finds_in_some_paths_and_by_expressions(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    every = _grep(db, Pattern(r"^class \w+Error\b", is_regex=True, limit=1000))
    assert every
    assert all(match.line.startswith("class ") for match in every)
    some = _grep(db, Pattern(r"^class \w+Error\b", is_regex=True, within=("typer/_click",), limit=1000))
    assert list(some) == [match for match in every if match.doc.startswith("typer/_click/")]
    among = tuple(match.id for match in every[::2])
    both = Pattern(r"^class \w+Error\b", is_regex=True, within=("typer/_click",), limit=1000, among=among)
    assert list(_grep(db, both)) == [match for match in some if match.id in among]


# --------------------------------------------------------------------------- contents


def test_the_table_of_contents_names_files_and_their_symbols(code_store: CodeStore) -> None:
    db = code_store(TYPER)
    whole = READER.index(db, None).splitlines()
    assert whole[0] == "codebase-index · 39 files · 648 symbols"
    assert len(whole) == 40
    assert whole[1:] == sorted(whole[1:])
    (line,) = [line for line in whole if line.startswith("typer/utils.py ")]
    path, *symbols, count = re.split(r"  +|, ", line)
    assert (path, count) == ("typer/utils.py", "(16)")
    assert symbols == ["_param_type_to_user_string", "AnnotatedParamWithDefaultValueE…"]
    some = READER.index(db, "typer/_click/").splitlines()
    assert some[0].startswith("codebase-index · typer/_click/ · ")
    assert some[1:] == [each for each in whole[1:] if each.startswith("typer/_click/")]
