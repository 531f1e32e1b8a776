"""The directory of the files: one holder at a time, and only what is whole is taken."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.sidecars.layout import write_segment
from collated.sidecars.shelf import Shelf

if TYPE_CHECKING:
    from tests.daemon.sidecars.conftest import MakeSegment


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    """A shelf whose directory is not there yet."""
    shelf = Shelf(tmp_path / "cache" / "sidecars")
    yield shelf
    shelf.release()


def test_the_directory_is_made_for_its_owner_alone(shelf: Shelf) -> None:
    assert shelf.acquire()
    assert shelf.directory.stat().st_mode & 0o777 == 0o700
    assert shelf.acquire()


def test_only_one_holds_it(shelf: Shelf) -> None:
    other = Shelf(shelf.directory)
    assert shelf.acquire()
    (shelf.directory / "x.part").touch()
    assert not other.acquire()
    assert (shelf.directory / "x.part").exists()
    shelf.release()
    assert other.acquire()
    assert not (shelf.directory / "x.part").exists()
    other.release()
    other.release()


def test_a_directory_that_was_removed_is_held_anew(shelf: Shelf) -> None:
    assert shelf.acquire()
    shutil.rmtree(shelf.directory)
    other = Shelf(shelf.directory)
    assert other.acquire()
    assert not shelf.acquire()
    assert shelf.lock is None
    other.release()
    assert shelf.acquire()


def test_a_file_is_taken_with_what_each_store_takes(shelf: Shelf, make_segment: MakeSegment) -> None:
    assert shelf.acquire()
    path = write_segment(make_segment("f"), shelf.directory, serial=4)
    book = shelf.take(path.name)
    assert book is not None
    assert book.present.pieces == (("f", 2),)
    assert (book.present.serial, book.present.format) == (4, "contextpull")
    assert book.shares == {"f": path.stat().st_size}
    assert dict(shelf.names()) == {path.name: book.file.identity}


def test_what_is_not_to_be_believed_is_removed_and_what_is_gone_is_none(
    shelf: Shelf, make_segment: MakeSegment
) -> None:
    assert shelf.acquire()
    path = write_segment(make_segment("f"), shelf.directory, serial=4)
    path.write_bytes(path.read_bytes()[:-1])
    assert shelf.take(path.name) is None
    assert not path.exists()
    assert shelf.take(path.name) is None


def test_clearing_counts_what_it_removes(shelf: Shelf, make_segment: MakeSegment) -> None:
    assert shelf.clear() == 0
    assert shelf.acquire()
    sizes = [
        write_segment(make_segment(name), shelf.directory, serial=1).stat().st_size for name in ("a", "bb")
    ]
    assert shelf.remove(["gone.segment"]) == 0
    assert shelf.clear() == sum(sizes)
    assert [path.name for path in shelf.directory.iterdir()] == ["lock"]
