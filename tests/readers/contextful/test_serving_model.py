"""A worker that has answered a lot answers as one that was just started, whatever was committed between."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextful.serving import Service

STATEMENTS = (
    "SELECT id, body FROM t ORDER BY ALL",
    "SELECT count(*) FROM t JOIN u USING (id)",
    "SELECT id, _run_id FROM t WHERE body = $body ORDER BY ALL",
    "SELECT count(*) FROM t__requests",
    "SELECT id, label FROM u ORDER BY ALL",
)
BOUNDS: tuple[dict[str, Any], ...] = ({}, {"as_of": "2030-01-01T00:03:00Z"}, {"as_of": "2030-01-02"})

COMMITS = st.tuples(
    st.just("commit"), st.sampled_from("tu"), st.lists(st.sampled_from("abcd"), max_size=3, unique=True)
)
FOLDS = st.tuples(st.sampled_from(("fold", "fold and collect")), st.sampled_from("tu"))
LEDGERS = st.tuples(st.just("ledger"), st.just("t"))
ASKS = st.tuples(st.just("ask"), st.sampled_from(STATEMENTS), st.sampled_from(BOUNDS))
STEP: st.SearchStrategy[tuple[Any, ...]] = st.one_of(COMMITS, FOLDS, LEDGERS, ASKS, ASKS)


class Project:
    """A store of two tables, both of which may be kept, and what happens to it."""

    def __init__(self, maker: ModuleType, folder: Path) -> None:
        self.store: Any = maker.StoreMaker(folder)
        declared: dict[str, Any] = {"primary_key": ["id"], "result_cache": "10m"}
        columns = {"t": {"id": "utf8", "body": "utf8"}, "u": {"id": "utf8", "label": "utf8"}}
        self.tables = {name: self.store.table(name, of, **declared) for name, of in columns.items()}
        self.minute = 0

    def do(self, what: str, name: str, ids: Any = ()) -> None:
        """Do one thing, a minute after the one before."""
        table = self.tables[name]
        self.minute += 1
        at = f"2030-01-01T00:{self.minute:02}:00Z"
        run = f"r{self.minute}"
        if what == "commit":
            table.run(run, [{"id": one, "body": one * 2, "label": run} for one in ids], at=at)
        elif what == "ledger":
            table.ledger(run, [{"request_id": run}])
        else:
            taken = list(table.runs)
            table.fold(at)
            for key in taken if what == "fold and collect" else ():
                table.retire(key)


def answer(service: Service, root: Path, sql: str, bounds: dict[str, Any]) -> Any:
    """Return what is answered, or the words of the refusal."""
    parameters = {"body": {"type": "string", "value": "aa"}} if "$body" in sql else None
    try:
        return service.answer(
            "context.query", str(root), {"sql": sql, "parameters": parameters, **bounds}, 30
        )
    except RequestError as error:
        return error.message


@pytest.mark.rule("change-misses", "frontier-invalidates", "hit-identical", "session-pool")
@pytest.mark.slow
@settings(max_examples=30)
@given(steps=st.lists(STEP, max_size=6))
def test_an_old_worker_answers_as_a_new_one(maker: ModuleType, steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Project(maker, Path(folder))
        old = Service(128 << 20, 1)
        always: list[tuple[Any, ...]] = [("ask", sql, {}) for sql in STATEMENTS[:2]]
        for what, *how in [*always, *steps, *always]:
            if what == "ask":
                sql, bounds = how
                new = Service(128 << 20, 1, results_bytes=0)
                root = project.store.root
                assert answer(old, root, sql, bounds) == answer(new, root, sql, bounds)
            else:
                project.do(what, *how)
        project.store.close()
