"""Whose names a WITH's are: the guard against the engine, on the same statements."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collated_readers import RequestError
from collated_readers.contextful.guard import Judged
from collated_readers.contextful.guard.scopes import MAX_PARTS

Judge = Callable[..., Judged]
Reads = Callable[[str], set[str]]

EVERYTHING = frozenset({"a", "b", "x", "hidden", "secret"})

# `a`, `b`, `x` and `hidden` are tables of the engine, so what does not name a WITH's entry reads them.
STATEMENTS = [
    "WITH hidden AS (SELECT * FROM hidden) SELECT * FROM hidden",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1 AS v) SELECT * FROM a",
    "WITH a AS (SELECT 1 AS v), b AS (SELECT * FROM a) SELECT * FROM b",
    "WITH x AS (SELECT 9 AS v) SELECT * FROM (WITH x AS (SELECT * FROM x) SELECT * FROM x)",
    "WITH b AS (SELECT 9 AS v) SELECT * FROM (WITH a AS (FROM b), b AS (SELECT 8 AS v) FROM a)",
    "WITH x AS (SELECT 1 AS v), a AS (WITH x AS (SELECT * FROM x) FROM x) FROM a",
    "WITH x AS (WITH a AS (FROM x) FROM a) FROM x",
    "WITH x AS (SELECT (SELECT v FROM x) AS v) FROM x",
    "WITH x AS (SELECT v FROM b WHERE EXISTS (SELECT 1 FROM x)) FROM x",
    "WITH x AS (SELECT * FROM (WITH x AS (SELECT 5 AS v) FROM x)) FROM x",
    "WITH x AS (WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM x WHERE v < 2) FROM x) FROM x",
    "WITH a AS MATERIALIZED (SELECT * FROM a) FROM a",
    "WITH a AS NOT MATERIALIZED (SELECT * FROM a) FROM a, a AS b",
    "WITH a(b) AS (SELECT v FROM b) FROM a",
    "SELECT * FROM (WITH a AS (SELECT 1 AS v) FROM a), a",
    "SELECT * FROM a, (WITH a AS (FROM a) FROM a)",
    "(WITH a AS (SELECT 1 AS v) FROM a) UNION ALL (SELECT v FROM a)",
    "WITH a AS (SELECT 1 AS v) (SELECT v FROM a) UNION (SELECT v FROM a UNION SELECT v FROM b)",
    "WITH a AS (SELECT 1 AS v) SELECT (SELECT v FROM a), EXISTS (FROM a), v IN (SELECT v FROM a) FROM b",
    "WITH a AS (SELECT 1 AS v) SELECT * FROM b ORDER BY (SELECT v FROM a) LIMIT (SELECT v FROM a)",
    "WITH a AS (SELECT 1 AS v) SELECT DISTINCT ON ((SELECT v FROM a)) * FROM b",
    "WITH a AS (SELECT 1 AS v) SELECT sum(v) OVER (ORDER BY (SELECT max(v) FROM a)) FROM b",
    "WITH a AS (SELECT 1 AS v) SELECT count(*) FROM b GROUP BY ROLLUP (v), (SELECT v FROM a)",
    "WITH a AS (SELECT 1 AS v) SELECT * FROM b, LATERAL (SELECT b.v + a.v FROM a)",
    "WITH a AS (SELECT 1 AS v) VALUES ((SELECT v FROM a))",
    "WITH a AS (VALUES (1)), b AS (TABLE a) TABLE b",
    "SELECT 1 WHERE 1 IN (WITH b AS (FROM b) SELECT v FROM b)",
    "WITH a AS (SELECT 1 AS v, 2 AS w) FROM a PIVOT (sum(w) FOR v IN (1))",
    "WITH a AS (SELECT 1 AS v, 2 AS w) PIVOT a ON v IN (1) USING sum(w)",
    "PIVOT (WITH a AS (SELECT 1 AS v, 2 AS w) FROM a) ON v IN (1) USING sum(w)",
    "WITH b AS (PIVOT b ON v IN (1) USING count(w)) FROM b",
    "WITH b AS (UNPIVOT (SELECT v FROM b) ON v) FROM b",
    "WITH RECURSIVE x AS (SELECT v FROM x UNION ALL SELECT v + 1 FROM x WHERE v < 3) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM x WHERE v < 3) FROM x",
    "WITH RECURSIVE x AS (SELECT * FROM x) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v INTERSECT SELECT v + 1 FROM x) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v EXCEPT SELECT v + 1 FROM x) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL BY NAME SELECT v FROM x) FROM x",
    "WITH RECURSIVE x AS ((SELECT 1 AS v UNION ALL SELECT v + 1 FROM x WHERE v < 3)) FROM x",
    "WITH RECURSIVE x AS (SELECT * FROM (SELECT 1 AS v UNION ALL SELECT v + 1 FROM x WHERE v < 3)) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL SELECT v FROM x UNION ALL SELECT v FROM b) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL (SELECT v FROM x UNION ALL SELECT v FROM x)) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL (WITH a AS (SELECT * FROM x) SELECT v FROM a)) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL (WITH x AS (SELECT * FROM x) SELECT v FROM x)) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL SELECT v FROM (WITH b AS (FROM b) FROM b)) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM a WHERE v IN (SELECT v FROM x)) FROM x",
    "WITH RECURSIVE x AS (WITH a AS (SELECT 1 AS v) SELECT v FROM a UNION ALL SELECT x.v FROM x, a) FROM x",
    "WITH RECURSIVE x AS (WITH a AS (SELECT v FROM x) SELECT v FROM a UNION ALL SELECT x.v FROM x, a) FROM x",
    "WITH RECURSIVE a AS (SELECT * FROM x), x AS (SELECT 1 AS v UNION SELECT v FROM x) FROM a",
    "WITH RECURSIVE x(v) USING KEY (v) AS (SELECT 1 UNION SELECT v + 1 FROM x WHERE v < 3) FROM x",
]


@pytest.mark.rule("whole-tree-walk")
@pytest.mark.parametrize("text", STATEMENTS)
def test_what_is_read_is_what_the_engine_reads(judged: Judge, read_by_the_engine: Reads, text: str) -> None:
    verdict = judged(text, relations=EVERYTHING)
    assert set(verdict.relations) == read_by_the_engine(text)


@pytest.mark.rule("whole-tree-walk", "unregistered-relation")
@pytest.mark.parametrize("text", STATEMENTS)
def test_what_reads_a_table_passes_only_where_it_is_registered(
    judged: Judge, read_by_the_engine: Reads, text: str
) -> None:
    read = read_by_the_engine(text)
    for missing in EVERYTHING:
        rest = EVERYTHING - {missing}
        if missing not in read:
            assert set(judged(text, relations=rest).relations) == read
            continue
        with pytest.raises(RequestError) as raised:
            judged(text, relations=rest)
        assert raised.value.code == "EnforceUnknownRelation"
        assert missing in raised.value.message


@pytest.mark.parametrize(
    ("text", "rights"),
    [
        ("FROM events ASOF JOIN rates USING (ccy, happened)", ["rates"]),
        ("FROM events ASOF LEFT JOIN rates USING (ccy, happened)", ["rates"]),
        ("FROM events JOIN rates USING (ccy, happened)", []),
        ("FROM events ASOF JOIN (SELECT * FROM rates) USING (ccy, happened)", ["rates"]),
        (
            "FROM events ASOF JOIN (FROM rates UNION FROM rates, notes) USING (ccy, happened)",
            ["notes", "rates"],
        ),
        ("WITH r AS (FROM rates) FROM events ASOF JOIN r USING (ccy, happened)", ["rates"]),
        ("WITH r AS (FROM rates), q AS (FROM r) FROM events ASOF JOIN q USING (ccy, happened)", ["rates"]),
        ("WITH r AS (FROM rates), q AS (FROM notes) FROM events ASOF JOIN r USING (ccy), q", ["rates"]),
        ("WITH e AS (FROM events) FROM e ASOF JOIN (FROM (VALUES (1)) v(ccy)) USING (ccy)", []),
        ("FROM notes JOIN (FROM events ASOF JOIN rates USING (ccy, happened)) ON true", ["rates"]),
        (
            "SELECT 1 WHERE EXISTS (FROM events ASOF JOIN (rates JOIN notes ON true) USING (ccy))",
            ["notes", "rates"],
        ),
        (
            "WITH RECURSIVE r AS (FROM rates UNION SELECT 1 FROM r, events) FROM notes ASOF JOIN r USING (c)",
            ["events", "rates"],
        ),
    ],
)
@pytest.mark.rule("join-undeclared")
def test_what_stands_right_of_an_asof_join_is_known(judged: Judge, text: str, rights: list[str]) -> None:
    assert list(judged(text).asof_rights) == rights


@pytest.mark.rule("whole-tree-walk")
def test_more_entries_than_anyone_writes_are_refused(judged: Judge) -> None:
    def entries(count: int) -> str:
        return f"WITH {', '.join(f'c{number} AS (VALUES (1))' for number in range(count))} FROM c0"

    assert judged(entries(MAX_PARTS - 1)).relations == ()
    with pytest.raises(RequestError, match="too many"):
        judged(entries(MAX_PARTS))
