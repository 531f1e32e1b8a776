from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from collated_readers import Budget, StoreError
from collated_readers.opening import StoreMoved, ask, open_store, take_signature


@pytest.fixture
def store(tmp_path: Path, shared: Path) -> Path:
    """The root of a context store that may be changed."""
    shutil.copytree(shared / "data" / "contextful" / "worked-example", tmp_path / "project")
    return tmp_path / "project" / ".contextful" / "context" / "research"


def test_the_signature_changes_with_a_commit_and_not_with_what_joins_nothing(store: Path) -> None:
    before = take_signature(store)
    (store / "tables" / "notes" / "data" / "runs" / "run-0001" / "ingest-a" / "more.junk").write_bytes(b"x")
    (store / "derived.sqlite").write_bytes(b"x")
    assert take_signature(store) == before
    shutil.rmtree(store / "tables" / "notes" / "data" / "runs" / "run-0004")
    assert take_signature(store) != before


def test_a_directory_that_is_no_store_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as refused:
        take_signature(tmp_path)
    assert refused.value.code == "not_a_file"


def test_a_question_to_a_store_that_has_moved_on_is_asked_anew(store: Path, tmp_path: Path) -> None:
    budget = Budget.lasting(10)
    db = open_store(store, copies=tmp_path / "copies", copy_limit_bytes=0, budget=budget)
    assert (db.mode, db.path) == ("directory", store)
    assert ask(db, lambda db: db.execute("SELECT 7").fetchone(), budget) == (7,)
    (store / "tables" / "notes" / "schema.json").write_text("{}")
    with pytest.raises(StoreMoved):
        ask(db, lambda db: db.execute("SELECT 7").fetchone(), budget)
    db.close()


def test_a_store_that_is_gone_has_vanished(store: Path) -> None:
    shutil.rmtree(store)
    with pytest.raises(StoreError) as refused:
        take_signature(store)
    assert refused.value.code == "vanished"
