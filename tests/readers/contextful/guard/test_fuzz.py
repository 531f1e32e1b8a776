"""Statements that nobody wrote: by a grammar, and by mixing those of the corpora.

The oracle is the engine's own plan, made without any lock over plain tables: whatever passes the guard
reads nothing but relations that are registered, and what reads only those and does nothing else passes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextful.guard import Judged
from collated_readers.contextful.plans import Plans
from collated_readers.contextful.session import Session

Judge = Callable[..., Judged]
Reads = Callable[[str], set[str]]
HERE = Path(__file__).parent

REGISTERED = frozenset({"a", "b"})  # of the oracle's tables of `v` and `w`; the rest is not
NAMES = ["a", "b", "x", "hidden", "secret", "nowhere", "A", '"a"']

# ---------------------------------------------------------------------------- by a grammar

names = st.sampled_from(NAMES)
hostile_tables = st.sampled_from(
    [
        "main.a",
        "memory.main.a",
        "information_schema.tables",
        "pg_catalog.pg_class",
        "duckdb_views",
        "sqlite_master",
        "'/etc/passwd'",
        '"x.parquet"',
        "duckdb_tables()",
        "range(3)",
        "unnest([1])",
        "read_text('/etc/passwd')",
        "glob('*')",
        "query('SELECT 1')",
        "(SHOW TABLES)",
        "(DESCRIBE a)",
        "a AT (VERSION => 1)",
    ]
)
hostile_values = st.sampled_from(
    [
        "current_setting('threads')",
        "getvariable('v')",
        "pg_get_viewdef(1)",
        "current_schema",
        "version()",
        "nextval('s')",
        "no_such(1)",
        "1::REGCLASS",
    ]
)
harmless_values = st.sampled_from(
    ["v", "1", "'x'", "v + 1", "abs(v)", "upper(w)", "[1, 2][1]", "{'k': v}.k", "CASE WHEN v > 1 THEN 2 END"]
)


def queries(tables: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return statements over *tables* and *values*, nested in every way that the grammar knows."""

    def extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        sources = tables | inner.map("({})".format)
        scalars = values | inner.map("(SELECT max(1) FROM ({}))".format) | inner.map("EXISTS ({})".format)
        entry = st.tuples(st.sampled_from(["a", "b", "x", "hidden", "A"]), st.sampled_from(BODIES), inner)
        return st.one_of(
            st.builds("SELECT {}, v FROM {}".format, scalars, sources),
            st.builds("FROM {}".format, sources),
            st.builds("SELECT v FROM {} AS q WHERE {} IS NOT NULL".format, sources, scalars),
            st.builds("SELECT l.v FROM {} AS l JOIN {} AS r USING (v)".format, sources, sources),
            st.builds("SELECT l.v FROM {} AS l, LATERAL (SELECT l.v FROM {}) AS r".format, sources, sources),
            st.builds("SELECT l.v FROM {} AS l ASOF JOIN {} AS r USING (w, v)".format, sources, sources),
            st.builds("({}) UNION ALL ({})".format, inner, inner),
            st.builds("({}) EXCEPT ({})".format, inner, inner),
            st.builds("({}) UNION BY NAME ({})".format, inner, inner),
            st.builds("SELECT v FROM {} AS q ORDER BY {} LIMIT 3".format, sources, scalars),
            st.builds("SELECT v, w FROM {} AS q LIMIT (SELECT max(1) FROM ({}))".format, sources, inner),
            st.builds("SELECT sum(v) OVER (ORDER BY {}) AS v FROM {} AS q".format, scalars, sources),
            st.builds("SELECT count(*) FILTER (WHERE {} IS NULL) AS v FROM {} AS q".format, scalars, sources),
            st.builds("SELECT v FROM {} AS q GROUP BY ROLLUP (v), {}".format, sources, scalars),
            st.builds("SELECT DISTINCT ON ({}) v FROM {} AS q".format, scalars, sources),
            st.builds(
                "SELECT v FROM {} AS q QUALIFY row_number() OVER (ORDER BY {}) = 1".format, sources, scalars
            ),
            st.builds("SELECT * REPLACE ({} AS v) FROM {} AS q".format, scalars, sources),
            st.builds("SELECT v FROM (VALUES ({})) AS q(v)".format, scalars),
            st.builds("SELECT v FROM (PIVOT {} ON v IN (1) USING count(*)) AS q(v)".format, sources),
            st.builds(
                "WITH {} {}".format, st.lists(entry.map(_entry), min_size=1, max_size=3).map(", ".join), inner
            ),
            st.builds(
                "WITH RECURSIVE {} {}".format,
                st.lists(entry.map(_entry), min_size=1, max_size=3).map(", ".join),
                inner,
            ),
        )

    return st.recursive(st.builds("SELECT {}, v FROM {}".format, values, tables), extended, max_leaves=6)


BODIES = [
    "{}",
    "SELECT 1 AS v UNION ALL ({})",
    "({}) UNION ({})",
    "SELECT v FROM ({}) UNION SELECT v FROM {name}",
]


def _entry(drawn: tuple[str, str, str]) -> str:
    name, body, inner = drawn
    return f"{name} AS ({body.format(inner, inner, name=name)})"


MARKED = queries(st.just("<TABLE>"), st.just("<VALUE>"))


@pytest.mark.rule("relation-allowlist", "whole-tree-walk", "table-function")
@given(text=queries(names, harmless_values))
def test_what_passes_reads_what_is_registered_and_what_is_read_is_known(
    judged: Judge, read_by_the_engine: Reads, text: str
) -> None:
    try:
        read = read_by_the_engine(text)
    except duckdb.Error:
        read = None  # it names what is nowhere, or does not fit together
    try:
        relations = set(judged(text, relations=REGISTERED).relations)
    except RequestError as error:
        if "nested too deeply" in error.message:
            return
        assert error.code in ("EnforceUnknownRelation", "engine_error"), text
        # Names that differ in case are refused although the engine takes them for one.
        assert read is None or not read <= REGISTERED or "A" in text, text
        return
    assert relations <= REGISTERED
    assert read is None or read <= relations, text


@st.composite
def with_one_hostile_place(draw: st.DrawFn) -> str:
    """Return a statement that is harmless but for one table or value in it."""
    first, *rest = re.split("(<TABLE>|<VALUE>)", draw(MARKED))
    marks, between = rest[::2], rest[1::2]
    chosen = draw(st.integers(0, len(marks) - 1))
    texts = ["a" if mark == "<TABLE>" else "v" for mark in marks]
    texts[chosen] = draw(hostile_tables if marks[chosen] == "<TABLE>" else hostile_values)
    return first + "".join(map("".join, zip(texts, between, strict=True)))


@pytest.mark.rule("relation-allowlist", "table-function")
@given(text=with_one_hostile_place())
def test_nothing_hostile_passes_wherever_it_stands(judged: Judge, text: str) -> None:
    with pytest.raises(RequestError):
        judged(text, relations=REGISTERED)


# ---------------------------------------------------------------------------- by mixing what there is


def lines(file: str) -> list[str]:
    return [line for line in (HERE / file).read_text().splitlines() if line and not line.startswith("# ")]


TOKEN = re.compile(r"\s+|\w+|'(?:[^']|'')*'|\"[^\"]*\"|.", re.DOTALL)
CORPUS = [TOKEN.findall(line) for file in ("honest.txt", "hostile.txt") for line in lines(file)]
PIECES = sorted({token for tokens in CORPUS for token in tokens})


@st.composite
def mixtures(draw: st.DrawFn) -> str:
    """Return a statement of the corpora with spans of others in the place of its own."""
    tokens = list(draw(st.sampled_from(CORPUS)))
    for _ in range(draw(st.integers(1, 3))):
        other = draw(st.sampled_from(CORPUS) | st.lists(st.sampled_from(PIECES), min_size=1, max_size=3))
        at, to = sorted((draw(st.integers(0, len(tokens))), draw(st.integers(0, len(tokens)))))
        begin, end = sorted((draw(st.integers(0, len(other))), draw(st.integers(0, len(other)))))
        tokens[at : min(to, at + 6)] = other[begin:end]
    return "".join(tokens)


@pytest.mark.rule("relation-allowlist", "single-read-only-statement")
@given(text=mixtures())
def test_whatever_passes_of_a_mixture_reads_what_is_registered(
    judged: Judge, read_by_the_engine: Reads, text: str
) -> None:
    try:
        relations = set(judged(text, parameters_of(text)).relations)
    except RequestError:
        return
    try:
        read = read_by_the_engine(text.strip(" ;\n"))
    except duckdb.Error:
        return
    assert read <= relations, text


ODD = [
    *("\xa0", "\u2003", "\u2028", "\u3000", "\ufeff", "\x85", "\x1f", ";", ";;", "-- ", "--\r", "/*", "*/"),
    *("$$", "'", '"', "E'\\'", "\\", "\xa0E'\\'\"'", ' --"', '"x;y"', "é", "\n", "/* ; */", "$t$", "''"),
]


@st.composite
def odd_mixtures(draw: st.DrawFn) -> str:
    """Return a statement of the corpora with what lexers trip over here and there, often at its end."""
    tokens = list(draw(st.sampled_from(CORPUS)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(tokens)) | st.just(len(tokens)))
        tokens.insert(at, draw(st.sampled_from(ODD)))
    return "".join(tokens)


@pytest.mark.rule("engine-own-parse")
@given(text=odd_mixtures())
def test_what_runs_is_what_was_judged(session: Session, judged: Judge, text: str) -> None:
    """A statement runs within another one, which must not make it another statement."""
    try:
        verdict = judged(text, parameters_of(text))
        session.touch(verdict.relations)
        inner = within(session, text, verdict.values)
    except RequestError:
        return
    assert inner == without_places(session.tree(text)["statements"][0]["node"]), text


def within(session: Session, text: str, values: Mapping[str, Any]) -> Any:
    """Return the tree of a statement as it stands in the one that is run."""
    with duckdb.connect() as engine:
        for name in session.relations:
            columns = ", ".join(f'"{each.name}" {each.type}' for each in session.columns(name))
            engine.execute(f'CREATE TABLE "{name}" ({columns})')
        try:
            sql = Plans().plan(engine, text, values).sql
        except duckdb.Error as error:
            raise RequestError("engine_error", str(error)) from error
    return without_places(session.tree(sql)["statements"][0]["node"]["from_table"]["subquery"]["node"])


def without_places(node: Any) -> Any:
    """Return a tree without where in the text things are."""
    return json.loads(re.sub(r'"query_location(_length)?": \d+', '"": 0', json.dumps(node)))


@pytest.mark.rule("engine-own-parse", "relation-allowlist")
@pytest.mark.parametrize(
    "text",
    [
        'WITH "duckdb_views\xa0" AS (SELECT 1) FROM duckdb_views\xa0',
        'WITH "secret\xa0" AS (SELECT 1) SELECT * FROM secret\xa0',
        'WITH "a;b" AS (SELECT 1 AS v) SELECT v, \xa0E\'\\\'"\' AS w FROM "a;b" --"',
    ],
)
def test_no_space_or_semicolon_makes_it_another_statement(session: Session, judged: Judge, text: str) -> None:
    with pytest.raises(RequestError) as raised:
        session.query(text, judged(text).values)
    assert raised.value.code in ("EnforceUnknownRelation", "engine_error")
    assert "Catalog" not in raised.value.message  # it was not looked for


def parameters_of(text: str) -> dict[str, Any]:
    return {name: {"type": "integer", "value": 1} for name in re.findall(r"\$(\w+)", text)}
