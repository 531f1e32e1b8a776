from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.errors import RequestFailed
from collated.selection import Asked

if TYPE_CHECKING:
    from tests.daemon.conftest import PutStore
    from tests.daemon.worlds import Assemble, Parts

pytestmark = pytest.mark.anyio


@pytest.fixture
async def parts(assemble: Assemble, stores: Path, put_store: PutStore) -> Parts:
    """The parts of a daemon that has found four stores, `a` to `d`."""
    for name in "abcd":
        put_store(stores / f"{name}.sqlite")
    parts = assemble()
    await parts.look()
    return parts


def names(asked: list[Asked]) -> list[str]:
    return [each.store.name for each in asked]


async def test_all_open_stores_are_asked_by_name(parts: Parts) -> None:
    selection = parts.fanout.choosing.select("search", None, None)

    assert names(selection.asked) == ["a", "b", "c", "d"]
    outcome = selection.outcome()
    assert (outcome.asked, outcome.answered, outcome.skipped, outcome.failed) == (4, 4, 0, [])


async def test_names_and_formats_narrow_the_choice(parts: Parts) -> None:
    choosing = parts.fanout.choosing

    assert names(choosing.select("search", ["c", "a", "c"], None).asked) == ["a", "c"]
    assert names(choosing.select("search", [], ["contextpull"]).asked) == ["a", "b", "c", "d"]
    assert names(choosing.select("search", None, []).asked) == ["a", "b", "c", "d"]


async def test_a_choice_is_made_once_however_often_its_stores_are_named(parts: Parts) -> None:
    once, often = (
        parts.fanout.choosing.select("search", names, None) for names in (["a", "b"], ["b", "a"] * 9)
    )
    assert often.chosen is once.chosen


async def test_a_store_that_nobody_knows_is_an_error_that_names_the_closest(parts: Parts) -> None:
    with pytest.raises(RequestFailed) as caught:
        parts.fanout.choosing.select("search", ["a", "aa"], None)

    assert caught.value.code == "unknown_store"
    assert caught.value.suggestion == "did you mean a?"
    with pytest.raises(RequestFailed) as caught:
        parts.fanout.choosing.known("zzzzzz")
    assert caught.value.suggestion == "`collate stores` lists them"


async def test_a_format_that_nobody_reads_is_an_error_that_names_those_that_are(parts: Parts) -> None:
    with pytest.raises(RequestFailed) as caught:
        parts.fanout.choosing.select("search", None, ["pdf"])

    assert (caught.value.code, caught.value.suggestion) == (
        "invalid_params",
        "one of book-agent, codebase-index, contextpull",
    )


async def test_a_store_without_the_capability_is_skipped(parts: Parts) -> None:
    outcome = parts.fanout.choosing.select("symbols", None, None).outcome()

    assert (outcome.asked, outcome.answered, outcome.skipped, outcome.failed) == (4, 0, 4, [])


async def test_a_store_that_is_busy_has_failed_and_one_that_was_refused_only_when_it_is_named(
    parts: Parts, stores: Path
) -> None:
    (stores / "b.sqlite").write_text("just text")
    (stores / "c.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9 a hot journal")
    os.utime(stores / "c.sqlite", (5, 5))
    await parts.look()

    every = parts.fanout.choosing.select("search", None, None)
    named = parts.fanout.choosing.select("search", ["a", "b"], None)

    assert names(every.asked) == ["a", "d"]
    assert [failure.code for failure in every.outcome().failed] == ["hot_journal"]
    assert names(named.asked) == ["a"]
    assert [(failure.store, failure.code) for failure in named.outcome().failed] == [("b", "not_sqlite")]
