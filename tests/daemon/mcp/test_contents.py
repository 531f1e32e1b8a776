"""The instructions hold as much of all contents as there is room for, and never more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.mcp.contents import instructions, line_of
from collated.protocol import StoreStatus

MakeStatus = Callable[..., StoreStatus]
IsPlain = Callable[[str], bool]

LONG = "a/path/that/is/longer/than/thirty/characters.md"
DOCS = "\n".join(
    [
        "ContextPull index · 3 documents · 9 sections · corpus d6fc4c82 · summaries: offline",
        "Call search(query, in?) to find sections.",
        "",
        f"{'guide.md':<30}  How to begin · and go on  (4)",
        f"{LONG:<30}  Long (very)  (3)",
        f"{'torn':<30}    (engine_error)",
        f"{'api/':<30}12 docs · 40 sections · Alpha, Beta, +10 more",
    ]
)
CODE = "\n".join(["codebase-index · 1 files · 2 symbols", f"{'src/main.py':<30}  main, Main  (2)"])


def tokens(text: str) -> int:
    return (len(text) + 3) // 4


def test_it_begins_with_what_to_do(status: MakeStatus) -> None:
    text = instructions([status("docs")], {"docs": DOCS})

    assert "Search for pointers, read for text, cite refs" in text
    assert "[docs:guide.md#3]" in text


def test_every_contents_is_there_in_full_where_there_is_room(status: MakeStatus) -> None:
    text = instructions([status("docs"), status("code")], {"docs": DOCS, "code": CODE})

    for line in (*DOCS.splitlines()[3:], *CODE.splitlines()):
        assert line in text
    assert "Call search(query, in?)" not in text  # the store's own discipline, of one store
    assert text.index("\ndocs  ") < text.index("\nguide.md") < text.index("\ncode  ") < text.index("\nsrc/")


def test_then_only_the_paths(status: MakeStatus) -> None:
    stores = [status("docs"), status("code")]
    full = instructions(stores, {"docs": DOCS, "code": CODE})
    text = instructions(stores, {"docs": DOCS, "code": CODE}, tokens(full) - 1)

    assert text.splitlines()[-7:] == [
        line_of(stores[0]),
        "  guide.md",
        f"  {LONG}",
        "  torn",
        "  api/",
        line_of(stores[1]),
        "  src/main.py",
    ]


def test_then_a_line_for_each_store(status: MakeStatus) -> None:
    stores = [status(f"docs-{number}") for number in range(20)]
    text = instructions(stores, {store.name: DOCS * 10 for store in stores}, 600)

    assert text.splitlines()[-20:] == [line_of(store) for store in stores]


def test_then_as_many_lines_as_fit_and_how_many_are_left_out(status: MakeStatus) -> None:
    stores = [status(f"docs-{number}") for number in range(1_000)]
    text = instructions(stores, {}, 600)

    lines = text.splitlines()
    shown = sum(line.startswith("docs-") for line in lines)
    assert 10 < shown < 1_000
    assert lines[-1] == f"+{1_000 - shown} more; call stores"
    assert tokens(text) <= 600 < tokens(text) + tokens(line_of(stores[0])) + 4


def test_without_a_store_it_says_how_to_get_one() -> None:
    assert "collate add PATH" in instructions([], {})


def test_a_store_that_is_not_open_says_why(status: MakeStatus) -> None:
    text = instructions([status("old", reason="torn \x1b[2J in two")], {})

    assert text.splitlines()[-1] == f"{'old':<30}  contextpull  refused: torn [2J in two"


@pytest.mark.parametrize("budget", [-1, 0, 1, 50])
def test_not_even_the_discipline_breaks_the_budget(status: MakeStatus, budget: int) -> None:
    assert tokens(instructions([status("docs")], {"docs": DOCS}, budget)) <= max(budget, 0)


def test_a_line_of_nothing_but_blanks_takes_no_time(status: MakeStatus) -> None:
    hostile = "x" * 30 + "  (" * 300_000

    assert tokens(instructions([status("docs")], {"docs": hostile})) <= 3_000


HOSTILE = st.text(st.sampled_from("ab /(2)·\n\r\t\x1b\u202e\u2028\x85\ud800é日"), max_size=200)


@given(
    texts=st.lists(st.tuples(st.sampled_from("abcdefgh"), HOSTILE | st.just(DOCS)), max_size=6),
    budget=st.integers(0, 1_000),
)
def test_it_never_is_over_budget_nor_has_control_characters(
    status: MakeStatus, is_plain: IsPlain, texts: Sequence[tuple[str, str]], budget: int
) -> None:
    contents = dict(texts)
    text = instructions([status(name) for name in contents], contents, budget)

    assert tokens(text) <= budget
    assert all(map(is_plain, text.split("\n")))
    assert len(text.encode()) >= len(text)


@given(st.integers(0, 400), st.integers(0, 3_000))
def test_more_room_never_shows_fewer_stores(status: MakeStatus, count: int, budget: int) -> None:
    stores = [status(f"s{number}") for number in range(count)]

    def shown(budget: int) -> int:
        return sum(line_of(store) in instructions(stores, {}, budget) for store in stores[:5])

    assert shown(budget) <= shown(budget + 100)
