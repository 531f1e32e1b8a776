"""What is refused of a text before the engine is given it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextful.guard import MAX_TEXT_BYTES, check_text
from collated_readers.contextful.guard.text import MAX_NESTED_WITHS, MAX_OPEN


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "\0",
        "SELECT 1\0",
        "\ud800",
        "x" * (MAX_TEXT_BYTES + 1),
        "é" * (MAX_TEXT_BYTES // 2 + 1),
        "(" * MAX_OPEN,
        "(/* ) */" * MAX_OPEN,
        "(')'" * MAX_OPEN,
        "(E'\\')'" * MAX_OPEN,
        '(")"' * MAX_OPEN,
        "($$)$$" * MAX_OPEN,
        "($a$ $$ ) $a$" * MAX_OPEN,
        "(--)\n" * MAX_OPEN,
        "WITH a AS (" * (MAX_NESTED_WITHS + 1),
        "WITH a AS (EXPLAIN " * (MAX_NESTED_WITHS + 1),
        "with a as (/* with */ " * (MAX_NESTED_WITHS + 1),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_no_statement_is(text: str) -> None:
    with pytest.raises(RequestError) as raised:
        check_text(text)
    assert raised.value.code == "StatementNotReadOnly"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "x" * MAX_TEXT_BYTES,
        "(" * (MAX_OPEN - 1),
        "()" * MAX_OPEN,
        ")" * 5000,
        ")(" * 5000,
        "'" + "(" * 5000 + "'",
        '"' + "(" * 5000 + '"',
        "$a$" + "(" * 5000 + "$a$",
        "-- " + "(" * 5000,
        "/* /* */ " + "(" * 5000 + " */",
        "/* " + "(" * 5000,
        "$$ " + "(" * 5000,
        "'' E'\\\\' ($1)" * 500,
        "WITH a AS (" * MAX_NESTED_WITHS,
        "(WITH a AS (SELECT 1) FROM a) UNION ALL " * 500,
        "SELECT TIMESTAMP WITH TIME ZONE '2030-01-01', " * 500,
        "'with' || \"with\" || $$with$$ (" * 100,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_one_may_be(text: str) -> None:
    check_text(text)


@given(st.text(st.sampled_from("()'\"$-/*\\eE \nawith"), max_size=200))
def test_any_text_gets_a_verdict(text: str) -> None:
    try:
        check_text(text)
    except RequestError as error:
        assert error.code == "StatementNotReadOnly"
