"""Context stores in the catalog, and without their engine; with it they are in tests/system."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.catalog import project_root
from collated.locate import listing
from collated.settings import Watched
from collated_readers.contextful.reader import Contextful, NoEngine
from collated_readers.registry import READERS

if TYPE_CHECKING:
    from tests.daemon.worlds import Assemble

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(tmp_path: Path, shared: Path) -> Path:
    """The root of a context store in `projects/research`."""
    project = tmp_path / "projects" / "research"
    shutil.copytree(shared / "data" / "contextful" / "worked-example", project)
    return project / ".contextful" / "context" / "research"


def test_a_store_is_found_by_its_directory_and_changes_in_it_are_watched(store: Path, tmp_path: Path) -> None:
    found = listing([Watched(str(tmp_path / "projects"), ("*/.contextful/context/*",))], [])
    assert list(found.found) == [str(store)]
    assert found.found[str(store)].signature is not None
    assert {str(store), str(store / "tables"), str(store / "tables/notes/data/runs")} <= found.directories
    assert project_root(str(store)) == str(tmp_path / "projects" / "research")


async def test_without_the_engine_a_store_is_refused_and_says_what_to_install(
    store: Path, stores: Path, assemble: Assemble
) -> None:
    (stores / "research.sqlite").symlink_to(store)
    parts = assemble(readers=(Contextful(NoEngine()), *READERS))
    await parts.look()
    await parts.inventory.all_opened()
    assert parts.states == {"research": "engine_missing"}
    reason = parts.inventory.in_order()[0].reason
    assert reason is not None
    assert "collated[contextful]" in reason.message
