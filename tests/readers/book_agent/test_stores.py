"""The 72 stores that came with the format's description: each gives what is expected of it, untouched."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collated_readers import Budget, RequestError, StoreError
from collated_readers.book_agent import BookAgent, PrebuiltVectorStoreAdapter
from collated_readers.opening import StoreConnection, ask
from collated_readers.registry import identify

OpenAt = Callable[[Path], StoreConnection]

_SHARED = Path(os.environ.get("COLLATE_SHARED", Path(__file__).parents[4] / "shared"))
_EXPECTED = _SHARED / "data" / "book-agent" / "expected.json"
CASES: list[dict[str, Any]] = json.loads(_EXPECTED.read_text(encoding="utf-8")) if _EXPECTED.exists() else []

each_store = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["file"]))

# What is found when a store is opened, before any passage is read.
OPENED = {"invalid_vector", "normalization_mismatch", "checksum_mismatch", "offset_gap"} | {
    "offset_length_mismatch",
    "reconstruction_mismatch",
    "invalid_text_encoding",
    "invalid_source_metadata",
    "invalid_record_text",
    "memory_budget_exceeded",
}


@pytest.fixture
def stores(shared: Path) -> Path:
    return shared / "data" / "book-agent" / "stores"


def _outcome(folder: Path, case: dict[str, Any]) -> tuple[str, list[str]]:
    """Return code and warnings of opening, validating, reading and searching a store."""
    manifest = folder / case["manifest"] if case["manifest"] else None
    options = {"memory_bytes": case["budget"]} if "budget" in case else {}
    try:
        with PrebuiltVectorStoreAdapter(folder / f"{case['file']}.sqlite", manifest, **options) as adapter:
            warnings = adapter.validate()
            assert len(list(adapter.iter_records())) == adapter.inspect().records
            if case.get("search"):
                _check_search(adapter, case["search"])
            return "ok", sorted(warned.code for warned in warnings)
    except (StoreError, RequestError) as error:
        assert error.message
        return error.code, []


def _check_search(adapter: PrebuiltVectorStoreAdapter, expected: dict[str, Any]) -> None:
    hits = adapter.search(expected["query"], expected["k"])
    assert [hit.id for hit in hits] == expected["ids"]
    assert [hit.score for hit in hits] == pytest.approx(expected["scores"], abs=1e-5)
    assert {hit.direction for hit in hits} == {expected["direction"]}


def test_there_are_72_of_them(stores: Path) -> None:
    assert len(CASES) == 72
    assert len(list(stores.glob("*.sqlite"))) == 72


@each_store
def test_a_store_gives_the_expected_code_and_warnings(case: dict[str, Any], stores: Path) -> None:
    assert _outcome(stores, case) == (case["expect"], sorted(case["warnings"]))


@pytest.mark.slow
def test_all_of_them_are_as_they_were_afterwards(
    stores: Path, tree: Callable[[Path], dict[str, Any]], open_at: OpenAt
) -> None:
    before = tree(stores)
    for case in CASES:
        _outcome(stores, case)
        _opened(open_at, stores / f"{case['file']}.sqlite")
    assert tree(stores) == before


def _opened(open_at: OpenAt, path: Path) -> tuple[str, str]:
    """Return the code of opening a store as the daemon does, and what its examination says."""
    budget = Budget.lasting(30)
    try:
        db = open_at(path)
        reader, _ = ask(db, identify, budget)
        assert isinstance(reader, BookAgent)
        examined = ask(db, lambda db: reader.examine(db, None, budget), budget)
    except StoreError as error:
        return error.code, ""
    return "ok", examined.details["validation"]


@each_store
def test_the_daemon_finds_the_same_at_once_or_in_the_background(
    case: dict[str, Any], stores: Path, open_at: OpenAt
) -> None:
    expected = case["expect"]
    opened, examined = _opened(open_at, stores / f"{case['file']}.sqlite")
    if expected == "not_a_database":  # nobody knows of which format it was meant to be
        assert opened in ("not_sqlite", "empty_file")
    elif expected == "ok" or "budget" in case:  # the default budget is large enough
        assert (opened, examined) == ("ok", "valid")
    elif expected in OPENED:
        assert (opened, examined) == ("ok", expected)
    else:
        assert (opened, examined) == (expected, "")
