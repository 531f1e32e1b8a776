"""The worked example of layout §13, with its sidecars, read where it lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collated_readers.contextful.instants import parse_bound
from collated_readers.contextful.model import Bounds
from collated_readers.contextful.retrieving import matches
from collated_readers.contextful.retrieving.sidecars import Sidecars

if TYPE_CHECKING:
    from collated_readers.contextful.retrieving import Retrieved
    from collated_readers.contextful.session import Session

Open = Callable[..., "Session"]
Ask = Callable[..., "Retrieved"]
RowsOf = Callable[["Retrieved"], list[dict[str, Any]]]


@pytest.fixture
def example(worked_example: Path, opened: Open) -> Session:
    """A session without bounds."""
    return opened(worked_example)


@pytest.mark.rule("ranked-call", "row-key-dedup", "reserved-columns-project-null")
def test_notes_are_found_by_their_newest_versions(example: Session, asked: Ask, rows_of: RowsOf) -> None:
    found = asked(example, "solar battery storage", prefix="notes")
    first, second = rows_of(found)
    assert (first["_row"]["note_id"], first["_score"], first["_run_id"]) == ("n1", 3, "run-0002")
    assert first["_snippet"] == "Solar battery storage costs fall (v2) — Cell prices fell again."
    assert (second["_row"]["note_id"], second["_score"], second["_date_basis"]) == ("n2", 2, "published_at")
    assert found.block(2)["candidates_prefloor"] == 5


@pytest.mark.rule("script-split-matching")
def test_japanese_is_found_by_containment(example: Session, asked: Ask, rows_of: RowsOf) -> None:
    (row,) = rows_of(asked(example, "蓄電池"))
    assert row["_row"]["note_id"] == "n4"


@pytest.mark.rule("caller-embedding", "sidecar-generates-candidates")
def test_articles_are_found_by_words_and_vectors(example: Session, asked: Ask, rows_of: RowsOf) -> None:
    held = Sidecars()
    found = rows_of(asked(example, "storage", prefix="kb/", query_embedding=[1, 0, 0], sidecars=held))
    assert [row["_row"]["article_id"] for row in found] == ["a1", "a3"]
    assert [row["_vscore"] for row in found] == pytest.approx([1.0, 0.6])
    assert found[0]["_row"]["meta"] == '{"n": 40}'
    assert len(held) == 1


@pytest.mark.rule("since", "window-anchor-tolerance", "question-window-is-a-tier")
def test_notes_out_of_the_timeframe_are_last(example: Session, asked: Ask, rows_of: RowsOf) -> None:
    found = rows_of(
        asked(example, "battery storage hiring analysts", prefix="notes", min_score=1, since="2030-01-01")
    )
    assert [(row["_row"]["note_id"], row["_in_window"], row["_date_basis"]) for row in found] == [
        ("n1", True, "published_at"),
        ("n5", True, "published_at"),
        ("n3", False, "uncastable"),
        ("n2", False, "published_at"),
    ]


@pytest.mark.rule("since")
def test_under_a_bound_the_rows_are_those_of_then(
    worked_example: Path, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    reads = opened(worked_example, Bounds(as_of=parse_bound("2030-01-10T03:00:00Z")))
    found = rows_of(asked(reads, "solar battery storage", tables=["notes"], since="2029-11-01"))
    assert [(row["_row"]["note_id"], row["_run_id"], row["_in_window"]) for row in found] == [
        ("n1", "run-0001", True),
        ("n2", "run-0001", True),
    ]


def test_a_search_over_many_stores_finds_rows_in_tiers(example: Session) -> None:
    found = matches(example, "battery storage", 10)
    assert [(one.id, one.tier) for one in found] == [
        ("notes/run-0002/0", "phrase"),
        ("notes/run-0003/1", "phrase"),
        ("kb/articles/run-0001/0", "any"),
        ("kb/articles/run-0001/2", "any"),
        ("notes/run-0007/0", "any"),
    ]
    assert (found[0].doc, found[0].heading_path) == ("notes", "Solar battery storage costs fall (v2)")
