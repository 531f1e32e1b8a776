"""The one projection: ceilings and their sources, what cut a response, bytes, blocks, internals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextful.model import (
    Bound,
    Bounds,
    Column,
    ContextStore,
    Declared,
    FileList,
    Limits,
    Run,
    Snapshot,
    Table,
)
from collated_readers.contextful.reads import Page
from collated_readers.contextful.responses import (
    FACE_ROWS,
    Ceiling,
    Ceilings,
    admits,
    blocks,
    ceilings_of,
    internals,
    respond,
    within,
)


def page_of(*texts: str) -> Page:
    return Page(("x",), [[text] for text in texts])


def size(value: Any) -> int:
    return len(msgspec.json.encode(value))


# ---------------------------------------------------------------------------- ceilings


@pytest.mark.rule("face-ceiling", "row-ceiling")
def test_rows_are_bounded_where_nobody_says_so() -> None:
    assert ceilings_of([Limits(), Limits()]) == Ceilings(Ceiling(FACE_ROWS, "face"))
    assert Ceilings().probe == FACE_ROWS + 1


@pytest.mark.rule("row-ceiling", "budget-arguments")
def test_the_least_ceiling_applies_and_says_whose_it_is() -> None:
    found = ceilings_of(
        [Limits(50, 5_000, 900), Limits(40, None, 1_000)], Limits(60, 6_000, 800), template_rows=45
    )
    assert found == Ceilings(Ceiling(40, "table"), Ceiling(5_000, "table"), Ceiling(800, "request"))
    assert ceilings_of([], Limits(7), 5).rows == Ceiling(5, "template")


@pytest.mark.rule("truncation-tie")
@given(st.permutations([Limits(10), Limits(20)]), st.sampled_from([10, None]), st.sampled_from([10, None]))
def test_equal_ceilings_are_of_table_then_request_then_template(
    tables: list[Limits], request: int | None, template: int | None
) -> None:
    assert ceilings_of(tables, Limits(request), template).rows == Ceiling(10, "table")
    source = "request" if request else "template" if template else "face"
    assert ceilings_of([], Limits(request), template).rows.source == source
    assert ceilings_of([], Limits(FACE_ROWS), FACE_ROWS).rows.source == "request"
    assert ceilings_of([], Limits(), FACE_ROWS).rows.source == "template"


# ---------------------------------------------------------------------------- rows


@pytest.mark.rule("one-projection", "zero-rows-is-success", "one-response-shape")
def test_a_response_is_columns_rows_and_whether_it_was_cut() -> None:
    assert respond(page_of(), Ceilings(), {}) == {"columns": ["x"], "rows": [], "truncated": False}
    blocks_ = {"contextful.bounds": {"inclusive": True}}
    assert respond(page_of("a"), Ceilings(), blocks_) == {
        "columns": ["x"],
        "rows": [["a"]],
        "truncated": False,
        "contextful.bounds": {"inclusive": True},
    }


@pytest.mark.rule("truncation-is-exact", "truncation-cause")
@given(st.integers(0, 5), st.integers(0, 5))
def test_rows_are_cut_exactly_when_the_probe_is_there(rows: int, limit: int) -> None:
    ceilings = Ceilings(Ceiling(limit, "request"))
    asked = page_of(*map(str, range(min(rows, ceilings.probe))))
    found = respond(asked, ceilings, {})
    assert found["rows"] == asked.rows[:limit]
    assert found["truncated"] is (rows > limit)
    cause = {"by": "rows", "ceiling": limit, "source": "request"} if rows > limit else None
    assert found.get("contextful.truncation") == cause


# ---------------------------------------------------------------------------- bytes


@pytest.mark.rule("byte-ceiling", "truncation-tie", "truncation-cause")
@given(
    texts=st.lists(st.text(max_size=40), min_size=1, max_size=12),
    limit=st.integers(1, 12),
    most=st.integers(30, 900),
    diagnosed=st.booleans(),
)
def test_bytes_pop_whole_rows_and_win_over_rows(
    texts: list[str], limit: int, most: int, *, diagnosed: bool
) -> None:
    ceilings = Ceilings(Ceiling(limit, "table"), None, Ceiling(most, "request"))
    asked = page_of(*texts[: ceilings.probe])
    more = {"sql": "SELECT 1"} if diagnosed else None
    unbounded = respond(asked, Ceilings(Ceiling(limit, "table")), {}, more)
    try:
        found = respond(asked, ceilings, {}, more)
    except RequestError as error:
        assert error.code == "ReadResponseTooLarge"
        one = respond(page_of(texts[0]), Ceilings(), {}, more)
        assert size(one) > most or len(texts) > 1  # with more rows, the cause takes its room too
        cause = {"by": "bytes", "ceiling": most, "source": "request"}
        assert size({**one, "truncated": True, "contextful.truncation": cause}) > most
        return
    kept = len(found["rows"])
    assert size(found) <= most
    assert found["rows"] == unbounded["rows"][:kept]
    assert found["truncated"] is (kept < len(texts))
    if diagnosed:
        assert found["contextful.internals"]["row_count"] == kept
    if not found["truncated"]:
        assert found == unbounded
    elif found["contextful.truncation"]["by"] == "rows":
        # The row that was cut would have had room, so bytes did not cut it too.
        assert kept == limit
        assert size({**found, "rows": asked.rows[: limit + 1]}) <= most
    else:
        assert size({**found, "rows": asked.rows[: kept + 1]}) > most


@pytest.mark.rule("truncation-tie")
def test_both_ceilings_at_one_row_are_told_as_bytes() -> None:
    rows = Ceiling(2, "table")
    exact = respond(page_of("a", "b", "c"), Ceilings(rows), {})
    # Room for the two rows and their cause, not for the third.
    found = respond(page_of("a", "b", "c" * 99), Ceilings(rows, None, Ceiling(size(exact) + 9, "table")), {})
    assert found["rows"] == [["a"], ["b"]]
    assert found["contextful.truncation"]["by"] == "bytes"
    found = respond(page_of("a", "b", "c"), Ceilings(rows, None, Ceiling(size(exact) + 9, "table")), {})
    assert found["contextful.truncation"] == {"by": "rows", "ceiling": 2, "source": "table"}


@pytest.mark.rule("byte-ceiling")
def test_an_envelope_or_first_row_that_does_not_fit_is_refused() -> None:
    ceilings = Ceilings(response_bytes=Ceiling(60, "request"))
    with pytest.raises(RequestError, match=r"ReadResponseTooLarge: .*60 bytes, from request"):
        respond(page_of("a" * 99), ceilings, {})
    with pytest.raises(RequestError, match="ReadResponseTooLarge"):
        respond(page_of(), ceilings, {"contextful.retrieval": {"since": "2030-01-01", "window": 200}})
    with pytest.raises(RequestError, match="ReadResponseTooLarge"):
        within({"tables": ["t" * 60]}, ceilings)
    assert within({"tables": []}, ceilings) == {"tables": []}


# ---------------------------------------------------------------------------- blocks


class Asked:
    """Reads of nothing: a store and the files of its tables."""

    def __init__(self, tables: Mapping[str, tuple[Declared, FileList]], bounds: Bounds = Bounds()) -> None:  # noqa: B008 - frozen
        named = {name: Table(name, declared) for name, (declared, _) in tables.items()}
        self.store = ContextStore("/nowhere", "p", "d", named, is_incognito=True)
        self.bounds = bounds
        self.closed: dict[str, str] = {}
        self._files = {name: files for name, (_, files) in tables.items()}

    @property
    def relations(self) -> frozenset[str]:
        return frozenset(self._files)

    def files(self, table: str) -> FileList:
        return self._files[table]

    def columns(self, relation: str) -> tuple[Column, ...]:
        raise NotImplementedError(relation)

    def touch(self, relations: Sequence[str]) -> None:
        raise NotImplementedError(relations)

    def tree(self, text: str) -> Any:
        raise NotImplementedError(text)

    def query(self, sql: str, values: Any = (), limit: int | None = None) -> Page:
        raise NotImplementedError(sql, values, limit)

    def fetch(self, sql: str, values: Any = ()) -> list[dict[str, Any]]:
        raise NotImplementedError(sql, values)

    def interrupting(self, ms: int | None, source: str = "request") -> AbstractContextManager[None]:
        return nullcontext()


BUILD = Snapshot(
    "snapshot-00000000000000000001", None, 1, publish={"build_id": "b7", "watermark": {"at": "x"}}
)


@pytest.mark.rule("resolved-echo", "absent-watermark")
def test_published_builds_are_named_with_their_watermark() -> None:
    bare = Snapshot("snapshot-00000000000000000002", None, 1, publish={})
    reads = Asked(
        {
            "daily": (Declared("daily"), FileList((), BUILD)),
            "unmarked": (Declared("unmarked"), FileList((), bare)),
            "landed": (Declared("landed"), FileList((), BUILD, (Run("r", "n", 1),))),
            "plain": (Declared("plain"), FileList()),
        }
    )
    found = blocks(reads, ["plain", "unmarked", "daily", "landed", "daily__requests"])
    assert found == {
        "contextful.resolved": {
            "daily": {"build_id": "b7", "watermark": {"at": "x"}},
            "unmarked": {"build_id": "snapshot-00000000000000000002", "watermark": None},
        }
    }
    assert blocks(reads, ["plain"]) == {}


def test_bounds_are_echoed_by_every_read_that_has_them() -> None:
    reads = Asked({}, Bounds(as_of=Bound(10**9), valid_as_of=Bound(0, is_inclusive=False)))
    assert blocks(reads, []) == {
        "contextful.bounds": {
            "as_of": "1970-01-01T00:00:01.000000000Z",
            "valid_as_of": "1970-01-01T00:00:00.000000000Z",
            "inclusive": False,
        }
    }


@pytest.mark.rule("restriction-block")
def test_a_touched_table_of_another_zone_is_named() -> None:
    far = Declared("far", zone_allow=("on-prem:*",))
    reads = Asked({"far": (far, FileList()), "near": (Declared("near"), FileList())})
    assert blocks(reads, ["near", "far"])["contextful.restriction"] == {
        "zone": "local:device",
        "incognito": True,
        "relations": [{"table": "far", "excluded": True, "rows_dropped": None, "columns_masked": []}],
    }
    assert blocks(reads, ["near"]) == {}


@pytest.mark.parametrize(
    ("allow", "is_admitted"),
    [
        (None, True),
        (("local:device",), True),
        (("on-prem:*", "local:*"), True),
        (("*",), True),
        (("on-prem:*",), False),
        (("local",), False),
        ((), False),
    ],
)
@pytest.mark.rule("describe-zone")
def test_zones_hold_the_machine_when_they_say_so(allow: tuple[str, ...] | None, *, is_admitted: bool) -> None:
    assert admits(allow) is is_admitted


@pytest.mark.rule("internals-opt-in", "query-internals-parameters")
def test_internals_are_there_when_asked_for() -> None:
    diagnosis = internals("SELECT 1", Ceilings(), 1.23456, parameters={"a": {"type": "integer", "value": 1}})
    found = respond(page_of("a"), Ceilings(), {}, diagnosis)
    assert found["contextful.internals"] == {
        "sql": "SELECT 1",
        "engine": "duckdb",
        "limit": FACE_ROWS,
        "elapsed_ms": 1.235,
        "parameters": {"a": {"type": "integer", "value": 1}},
        "row_count": 1,
    }
    assert "contextful.internals" not in respond(page_of("a"), Ceilings(), {})
