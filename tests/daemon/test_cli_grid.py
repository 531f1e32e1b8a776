"""Values of a table on a terminal: columns that align and fit, numbers to the right, all of it harmless."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.cli.grid import columns_of, cut, grid, shown
from collated.cli.line import plain

NASTY = "\x1b[2Jx\u202ey\x9b\x07"


def text(heads: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None = None) -> list[str]:
    return [plain(line) for line in grid(heads, rows, width)]


def test_numbers_stand_to_the_right_and_everything_else_to_the_left() -> None:
    rows = [["a", 1, "12", 1.5, "7"], ["long", 100, "9007199254740993", "inf", "x"]]

    assert text(("name", "n", "wide", "f", "mixed"), rows) == [
        "name    n              wide    f  mixed",
        "────  ───  ────────────────  ───  ─────",
        "a       1                12  1.5  7",
        "long  100  9007199254740993  inf  x",
    ]


def test_nulls_are_told_from_the_word_and_from_empty_text() -> None:
    assert text(("a", "b"), [[None, "NULL"], ["", None]]) == [
        "a     b",
        "────  ──────",
        'NULL  "NULL"',
        "      NULL",
    ]
    (_, _, row) = grid(("a", "b"), [[None, "NULL"]], None)
    assert [span.meaning for span in row.spans] == ["aside", "", ""]


def test_a_null_does_not_make_numbers_text() -> None:
    assert text(("n",), [[1], [None], [-20]]) == ["   n", "────", "   1", "NULL", " -20"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "true"),
        (1.0, "1.0"),
        ([1, None, "x"], '[1,null,"x"]'),
        ({"a": {"b": []}}, '{"a":{"b":[]}}'),
        ("two\nlines", "two\\nlines"),
    ],
)
def test_a_value_is_one_line(value: Any, said: str) -> None:
    assert shown(value).text == said


def test_without_rows_there_is_still_a_head() -> None:
    assert text(("a", "bc"), [], 80) == text(("a", "bc"), []) == ["a  bc", "─  ──"]


def test_columns_align_where_letters_are_wide() -> None:
    head, _, first, second = text(("title", "n"), [["東京駅", "1"], ["abc", "22"]])

    assert [columns_of(row) for row in (head, first, second)] == [10, 10, 10]
    assert (first, second) == ("東京駅   1", "abc     22")


def test_programs_get_all_of_a_long_cell() -> None:
    long = "x" * 100_000

    assert text(("a", "b"), [[long, "1"], ["y", "2"]])[2:] == [f"{long}  1", f"y{' ' * 61}2"]


def test_long_cells_are_cut_and_short_ones_are_not() -> None:
    rows = text(("id", "body", "more"), [["n1", "words " * 99, "others " * 99]], 40)

    assert rows[2] == "n1  words words word…  others others ot…"
    assert all(columns_of(row) <= 40 for row in rows)


def test_where_columns_do_not_fit_each_row_is_a_list() -> None:
    heads = [f"column_{number}" for number in range(6)]

    assert text(heads, [["word " * 20, *range(5)], [None] * 6], 30) == [
        "row 1",
        "  column_0  word word word wo…",
        *(f"  column_{number + 1}  {number}" for number in range(5)),
        "row 2",
        *(f"  column_{number}  NULL" for number in range(6)),
    ]


def test_text_is_cut_within_its_columns() -> None:
    assert [cut("abcdef", width) for width in (6, 5, 1, 0)] == ["abcdef", "abcd…", "…", ""]
    assert [cut("東京駅", width) for width in (6, 5, 4, 2)] == ["東京駅", "東京…", "東…", "…"]


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(), st.lists(st.text(), max_size=3)
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    count = draw(st.integers(1, 5))
    row = st.lists(CELLS, min_size=count, max_size=count)
    heads = draw(st.lists(st.text(), min_size=count, max_size=count))
    return heads, draw(st.lists(row, max_size=4))


@given(tables(), st.integers(1, 100))
def test_any_table_fits_the_terminal(made: tuple[list[str], list[list[Any]]], width: int) -> None:
    shown_rows = text(*made, width)

    # A row of a list needs columns for its indent, a letter of its name and one of its value.
    assert all(columns_of(row) <= max(width, 8) for row in shown_rows)


@given(tables(), st.none() | st.integers(1, 100))
def test_any_table_is_harmless(made: tuple[list[str], list[list[Any]]], width: int | None) -> None:
    for row in text(*made, width):
        assert all(unicodedata.category(c) not in ("Cc", "Zl", "Zp") for c in row)
        assert not {*row} & {*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"}


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S")), min_size=1))
def test_a_program_loses_nothing(value: str) -> None:
    (row,) = text(("a",), [[{"is": value}]])[2:]

    assert json.loads(row) == {"is": value}


def test_what_is_nasty_is_shown() -> None:
    head, _, row = text((NASTY,), [[NASTY]], 80)

    assert head == row == "\\x1b[2Jx\\u202ey\\x9b\\x07"
