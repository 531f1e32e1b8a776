"""The corpora: `hostile.txt`, all refused, and `honest.txt`, all passed and run; the store is left alone."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collated_readers import RequestError
from collated_readers.contextful.guard import Judged
from collated_readers.contextful.session import Session

Judge = Callable[..., Judged]
HERE = Path(__file__).parent

GIVEN = {
    "id": {"type": "string", "value": "n1"},
    "least": {"type": "integer", "value": 1},
    "most": {"type": "float", "value": 2},
    "open": {"type": "boolean", "value": True},
    "since": {"type": "timestamp", "value": "2029-01-01T00:00:00.000001+01:00"},
    "1": {"type": "string", "value": "n1"},
    "2": {"type": "integer", "value": 2},
}
MARKS = {"<NUL>": "\0", "<LF>": "\n", "<BOM>": "\ufeff", "<NBSP>": "\xa0"}


class Hostile(NamedTuple):
    category: str
    codes: frozenset[str]
    text: str


def hostile() -> Iterator[Hostile]:
    category, codes = "", frozenset[str]()
    for line in (HERE / "hostile.txt").read_text().splitlines():
        if match := re.fullmatch(r"# (.*) \| ([\w ]+)", line):
            category, codes = match[1], frozenset(match[2].split())
        elif line and not line.startswith("# "):
            for mark, meant in MARKS.items():
                line = line.replace(mark, meant)  # noqa: PLW2901 - a line becomes its statement
            yield Hostile(category, codes, line)


def honest() -> list[str]:
    lines = (HERE / "honest.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


# What is long or deep: what it begins with, what is said again and again, what is within, what closes it.
REPEATED = [
    ("SELECT ", "(", "1", ")", 1000),
    ("SELECT ", "(", "", "", 60_000),
    ("SELECT ", "(/* ) */", "", "", 8000),
    ("FROM ", "(", "notes", ")", 30_000),
    ("FROM ", "(notes JOIN ", "", "", 5000),
    ("SELECT 1", " + 1", "", "", 900),
    ("SELECT 1", " + 1", "", "", 15_000),
    ("SELECT ", "- ", "1", "", 30_000),
    ("SELECT ", "NOT ", "true", "", 900),
    ("SELECT ", "abs(", "1", ")", 10_000),
    ("SELECT ", "(SELECT ", "1", ")", 900),
    ("SELECT ", "EXISTS (FROM ", "notes", ")", 190),
    ("FROM ", "(FROM ", "notes", ")", 900),
    ("SELECT ", "[", "1", "]", 2000),
    ("SELECT ", "{'a': ", "1", "}", 2000),
    ("SELECT ", "CASE WHEN true THEN ", "1", " END", 900),
    ("SELECT ", "list_transform([1], lambda x: ", "1", ")", 300),
    ("SELECT title", "[1]", " FROM notes", "", 900),
    ("SELECT title", "::VARCHAR", " FROM notes", "", 900),
    ("SELECT 1 FROM notes", " JOIN notes USING (note_id)", "", "", 2000),
    ("SELECT 1", ", 1 + 1", "", "", 10_000),
    ("FROM notes", ", notes", "", "", 8000),
    ("WITH ", "a AS (SELECT 1), ", "b AS (SELECT 1) FROM b", "", 900),
    ("", "WITH a AS (", "", "", 12),
    ("", "WITH a AS (", "", "", 5000),
    ("", "WITH RECURSIVE a AS (", "SELEC 1", ")", 40),
    ("", "WITH a AS MATERIALIZED (", "SELECT 1", ") FROM", 40),
    ("", "WITH a AS (EXPLAIN ", "", "", 14),
    ("", "WITH a AS (/* ) */ /* /* */ ) */", "", "", 14),
    ("", "WITH a AS (-- )\n", "", "", 14),
    ("", "WITH a AS (SELECT ')' || \")\" || $$)$$ || E'\\')' FROM (", "", "", 14),
    ("SELECT ", "(WITH a AS (", "", "", 30),
    ("SELECT '", "a", "'", "", 66_000),
    ("SELECT ", "\n", "1", "", 66_000),
    ("SELECT '", "é", "'", "", 33_000),
]


@pytest.mark.rule("single-read-only-statement", "relation-allowlist", "table-function", "whole-tree-walk")
@pytest.mark.parametrize("case", list(hostile()), ids=lambda case: f"{case.category}: {case.text[:60]!r}")
def test_what_is_hostile_is_refused(judged: Judge, part: Path, tmp_path: Path, case: Hostile) -> None:
    text = case.text.replace("<PART>", str(part)).replace("<NEW>", str(tmp_path / "new"))
    with pytest.raises(RequestError) as raised:
        judged(text)
    assert raised.value.code in case.codes
    assert raised.value.message.startswith(raised.value.code)


@pytest.mark.rule("single-read-only-statement")
@pytest.mark.parametrize("case", REPEATED, ids=[f"{row[1]!r} {row[4]}" for row in REPEATED])
def test_what_is_long_or_deep_is_refused(judged: Judge, case: tuple[str, str, str, str, int]) -> None:
    begin, again, within, close, times = case
    with pytest.raises(RequestError) as raised:
        judged(begin + again * times + within + close * times)
    assert raised.value.code in ("StatementNotReadOnly", "engine_error")


@pytest.mark.rule("relation-allowlist", "bare-name", "query-binding")
@pytest.mark.parametrize("text", honest())
def test_what_is_honest_passes_and_runs(session: Session, judged: Judge, text: str) -> None:
    verdict = judged(text, parameters_of(text))
    assert set(verdict.relations) <= session.relations
    session.touch(verdict.relations)
    session.query(text, verdict.values, 5)


def parameters_of(text: str) -> dict[str, Any]:
    return {name: GIVEN[name] for name in re.findall(r"\$(\w+)", text) if name in GIVEN}


@pytest.mark.rule("relation-allowlist", "single-read-only-statement")
def test_the_store_is_as_it_was_after_all_of_them(
    session: Session, judged: Judge, guarded_store: Path, part: Path, tmp_path: Path
) -> None:
    before = digest_of(guarded_store), digest_of(tmp_path)
    said: list[tuple[str, dict[str, Any]]] = [(case.text, {}) for case in hostile()]
    said += [(text, parameters_of(text)) for text in honest()]
    ran = 0
    for text, parameters in said:
        written = text.replace("<PART>", str(part)).replace("<NEW>", str(tmp_path / "new"))
        with contextlib.suppress(RequestError):
            verdict = judged(written, parameters)
            session.query(written, verdict.values, 5)
            ran += 1
    assert ran == len(honest())
    assert (digest_of(guarded_store), digest_of(tmp_path)) == before


def digest_of(folder: Path) -> dict[str, tuple[str, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in files
    }


def test_the_corpora_are_large_enough() -> None:
    assert len({case.text for case in hostile()}) + len(REPEATED) >= 500
    assert len(set(honest())) >= 150
