"""The walk, on folders made for it; the four formats are looked for in tests/system/setup."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.setup.finding import look
from collated.setup.model import Looked

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Snapshot

Project = Callable[..., Path]


@pytest.fixture(scope="session")
def sample(make_store: MakeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("sample") / "s.sqlite", {"a.md": "# A\n\nSome words.\n"})


@pytest.fixture
def project(tmp_path: Path, sample: Path) -> Project:
    """`project(*parts)` makes a project with a store below the test's folder, and returns the store."""

    def make(*parts: str) -> Path:
        store = tmp_path.joinpath(*parts, ".contextpull", "store.sqlite")
        store.parent.mkdir(parents=True)
        shutil.copyfile(sample, store)
        return store

    return make


def stores(looked: Looked) -> set[str]:
    return set(looked.stores)


def test_projects_are_found_with_their_format_and_folder(tmp_path: Path, project: Project) -> None:
    store = project("src", "a")

    looked = look([str(tmp_path)], 6)

    (found,) = looked.stores.values()
    assert (found.path, found.format, found.project) == (str(store), "contextpull", str(tmp_path / "src/a"))
    assert looked.folders == 3


def test_the_walk_goes_no_deeper_than_it_is_told(tmp_path: Path, project: Project) -> None:
    near, _far = project("a", "b"), project("a", "b", "c")

    assert stores(look([str(tmp_path)], 2)) == {str(near)}
    assert stores(look([str(tmp_path / "a" / "b")], 0)) == {str(near)}


@pytest.mark.parametrize("name", ["node_modules", "__pycache__", ".cache", ".git"])
def test_folders_that_hold_no_stores_are_passed_over(tmp_path: Path, project: Project, name: str) -> None:
    project("src", name, "a")

    assert stores(look([str(tmp_path)], 6)) == set()


@pytest.mark.parametrize("marker", ["pyvenv.cfg", "CACHEDIR.TAG"])
def test_environments_and_caches_are_passed_over(tmp_path: Path, project: Project, marker: str) -> None:
    project("env", "lib", "a")
    (tmp_path / "env" / marker).touch()

    assert stores(look([str(tmp_path)], 6)) == set()


def test_a_folder_that_is_linked_is_not_followed(tmp_path: Path, project: Project) -> None:
    store = project("home", "src", "a")
    project("elsewhere", "b")
    (tmp_path / "home" / "src" / "loop").symlink_to(tmp_path / "home")
    (tmp_path / "home" / "other").symlink_to(tmp_path / "elsewhere")

    looked = look([str(tmp_path / "home")], 6)

    assert stores(looked) == {str(store)}
    assert looked.folders == 3


def test_a_mount_point_of_the_network_is_not_looked_into(tmp_path: Path, project: Project) -> None:
    project("remote", "a")

    assert stores(look([str(tmp_path)], 6, network=[str(tmp_path / "remote")])) == set()


def test_another_file_system_is_not_looked_into() -> None:
    root = Path("/")
    below = [
        each for each in root.iterdir() if each.is_dir() and not each.is_symlink() and each.name[0] != "."
    ]
    here = [each for each in below if each.stat().st_dev == root.stat().st_dev and each.name != "lost+found"]
    if len(here) == len(below):
        pytest.skip("no other file system is mounted in /")

    assert look(["/"], 1).folders == 1 + len(here)


def test_stores_by_themselves_are_known_by_what_they_hold(tmp_path: Path, sample: Path) -> None:
    for name in ("books/a.sqlite", "books/b.db", "books/c.txt", "books/.d.db", "mixed/a.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(sample, tmp_path / name)
    with closing(sqlite3.connect(tmp_path / "mixed" / "app.db")) as db:
        db.execute("CREATE TABLE t (a)")
    (tmp_path / "mixed" / "empty.sqlite").touch()

    looked = look([str(tmp_path)], 6)

    assert stores(looked) == {str(tmp_path / name) for name in ("books/a.sqlite", "books/b.db", "mixed/a.db")}
    assert looked.strangers == {(str(tmp_path / "mixed"), ".db"), (str(tmp_path / "mixed"), ".sqlite")}
    assert looked.left_out == {}


def test_what_only_looks_like_a_store_is_left_out_with_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "a" / ".contextpull"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "store.sqlite")
    os.mkfifo(tmp_path / "queue.sqlite")
    (folder / "text.sqlite").write_text("hello")
    (folder / "broken.sqlite").symlink_to("nowhere")
    (folder / "loop.sqlite").symlink_to("loop.sqlite")

    looked = look([str(tmp_path)], 6)

    assert stores(looked) == set()
    assert looked.left_out[str(folder / "store.sqlite")] == "a FIFO, not a file"
    assert "does not begin like" in looked.left_out[str(folder / "text.sqlite")]
    assert {Path(path).name for path in looked.left_out} == {
        "store.sqlite",
        "text.sqlite",
        "broken.sqlite",
        "loop.sqlite",
    }


def test_a_store_that_is_being_written_is_found_in_a_project_and_not_copied(
    tmp_path: Path, project: Project, snapshot: Snapshot
) -> None:
    store = project("a")
    shutil.copyfile(store, tmp_path / "b.sqlite")
    with closing(sqlite3.connect(store)) as one, closing(sqlite3.connect(tmp_path / "b.sqlite")) as two:
        for writer in (one, two):
            writer.execute("CREATE TABLE more (a)")
        before = snapshot(tmp_path)

        looked = look([str(tmp_path)], 6)

        assert {path: found.format for path, found in looked.stores.items()} == {str(store): ""}
        assert looked.left_out == {str(tmp_path / "b.sqlite"): "a program is writing it; look again later"}
        assert snapshot(tmp_path) == before


def test_names_that_are_no_text_are_found(tmp_path: Path, project: Project) -> None:
    found = {str(project(name)) for name in ("\udcff", "a\n\x1b[31m", '"\\')}

    assert stores(look([str(tmp_path)], 6)) == found


@pytest.mark.slow
def test_a_huge_folder_is_named_and_not_gone_through(tmp_path: Path, project: Project) -> None:
    store = project("huge")
    project("huge", "z")
    for number in range(20_000):
        (tmp_path / "huge" / str(number)).touch()

    looked = look([str(tmp_path)], 6)

    assert stores(looked) == {str(store)}
    assert looked.left_out == {str(tmp_path / "huge"): "over 20000 entries; what lies below is not looked at"}
    assert looked.crowded == {str(tmp_path / "huge")}


def test_a_folder_of_many_folders_is_crowded(tmp_path: Path) -> None:
    for number in range(501):
        (tmp_path / str(number)).mkdir()

    assert look([str(tmp_path)], 0).crowded == {str(tmp_path)}


def test_it_tells_how_far_it_is(tmp_path: Path, project: Project) -> None:
    project("a")
    told: list[tuple[int, int]] = []

    look([str(tmp_path)], 6, tell=lambda folders, stores: told.append((folders, stores)))

    assert told == [(1, 0), (2, 1)]
