"""Whatever a caller sends, a tool answers it or refuses it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextful.tools import TOOLS

WORDS = [
    *(
        "notes",
        "rates",
        "quiet",
        "notes__requests",
        "kb/articles",
        "notes_for",
        "n1",
        "run-0001",
        "r1/ingest-a",
    ),
    *("2030-01-10", "2030-01-10T03:00:00Z", "9999-12-31", "9999-12-31T23:59:59.999999999Z"),
    *(
        "0001-01-01T00:00:00+23:59",
        "",
        " ",
        "'",
        '"',
        ";",
        "--",
        "\0",
        "\ud800",
        "$1",
        "?",
        "../..",
        "/etc/passwd",
    ),
    *("SELECT 1", "FROM notes", "SELECT $x FROM rates", "x" * 70_000),
    "tables/notes/data/runs/run-0003/ingest-b/part-00000.parquet",
]
TEXTS = st.sampled_from(WORDS) | st.text(max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
FITTING: dict[Any, st.SearchStrategy[Any]] = {
    "tables": st.lists(TEXTS, min_size=1, max_size=3),
    "after": st.dictionaries(TEXTS, TEXTS, max_size=2),
    "pin": st.dictionaries(TEXTS, TEXTS | st.none(), max_size=2),
    "parameters": st.dictionaries(
        TEXTS,
        st.fixed_dictionaries(
            {"type": st.sampled_from(["integer", "string", "timestamp"]), "value": SCALARS}
        ),
    ),
    "arguments": st.dictionaries(st.sampled_from(["note_id", "x"]), SCALARS),
    "internals": st.booleans(),
    "row_seq": st.integers(0, 2**63 - 1),
    "limit": st.integers(0),
    "max_duration_ms": st.integers(0) | st.none(),
    "max_response_bytes": st.integers(0) | st.none(),
}


def arguments(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of a tool, most of which fit."""
    known = {field.name: field.required for field in msgspec.structs.fields(TOOLS[name].params)}
    each = {argument: FITTING.get(argument, TEXTS) | VALUES for argument in known}
    required = {argument: each.pop(argument) for argument, is_required in known.items() if is_required}
    return st.fixed_dictionaries(required, optional=each)


@pytest.mark.rule("in-band-error", "paths-stay-inside")
@pytest.mark.parametrize("name", TOOLS)
@given(data=st.data())
def test_a_tool_answers_or_refuses(example: Any, name: str, data: st.DataObject) -> None:
    params = data.draw(arguments(name))
    try:
        answer = example(name, **params)
    except msgspec.ValidationError:
        return
    except RequestError as error:
        assert str(example.root) not in error.message
        return
    assert str(example.root) not in msgspec.json.encode(answer).decode()
