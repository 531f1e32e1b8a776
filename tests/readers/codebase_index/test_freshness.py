"""Whether a checkout has moved on since it was indexed."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from collated_readers import Budget, StoreError
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.opening import StoreConnection, ask

MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]

READER = CodebaseIndex()
FILES = {"a.py": "one = 1\n", "b.py": "two = 2\n", "dir/c.md": "# Three\n"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The project's directory."""
    return tmp_path / "project"


@pytest.fixture
def db(root: Path, tmp_path: Path, make_code_store: MakeStore, open_at: OpenAt) -> StoreConnection:
    return open_at(make_code_store(tmp_path / "store.sqlite", FILES, root=root))


def _examined(db: StoreConnection, root: Path | None, budget: Budget | None = None) -> dict[str, Any]:
    budget = budget or Budget.lasting(30)
    found = ask(
        db, lambda db: READER.examine(db, None if root is None else str(root), budget), Budget.lasting(30)
    )
    assert found.again_s == (None if root is None else 60)
    return dict(found.details)


def test_nothing_has_changed_in_a_checkout_as_it_was(db: StoreConnection, root: Path) -> None:
    assert _examined(db, root) == {"files_changed": 0}
    (root / "new.py").write_text("not indexed, so nobody knows whether it would be")
    assert _examined(db, root) == {"files_changed": 0}


def test_nothing_is_said_without_a_checkout(db: StoreConnection) -> None:
    assert _examined(db, None) == {}


def test_a_file_counts_that_is_other_or_gone(db: StoreConnection, root: Path) -> None:
    os.utime(root / "a.py", ns=(1, 1))
    assert _examined(db, root) == {"files_changed": 0}  # the same text at another time
    (root / "a.py").write_text("one = 2\n")  # of the same length
    assert _examined(db, root) == {"files_changed": 1}
    (root / "b.py").unlink()
    assert _examined(db, root) == {"files_changed": 2}
    (root / "dir" / "c.md").write_text("# Three and more\n")
    assert _examined(db, root) == {"files_changed": 3}
    assert _examined(db, root / "not there") == {"files_changed": 3}


def test_a_file_of_the_time_and_length_that_were_indexed_is_not_read(db: StoreConnection, root: Path) -> None:
    about = (root / "a.py").stat()
    (root / "a.py").write_text("one = 3\n")
    os.utime(root / "a.py", ns=(about.st_atime_ns, about.st_mtime_ns))
    assert _examined(db, root) == {"files_changed": 0}


def test_no_symlink_leads_out_of_the_checkout(db: StoreConnection, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(FILES["a.py"])
    (root / "a.py").unlink()
    (root / "a.py").symlink_to(outside)
    assert _examined(db, root) == {"files_changed": 1}
    (root / "a.py").unlink()
    (root / "inside.py").write_text(FILES["a.py"])
    (root / "a.py").symlink_to(root / "inside.py")
    assert _examined(db, root) == {"files_changed": 0}


def test_what_is_no_file_has_changed_and_is_not_opened(db: StoreConnection, root: Path) -> None:
    (root / "a.py").unlink()
    os.mkfifo(root / "a.py")
    (root / "b.py").unlink()
    (root / "b.py").mkdir()
    assert _examined(db, root) == {"files_changed": 2}


@pytest.mark.parametrize("path", ["../outside.py", "/etc/hostname", "a.py\0", "x" * 5000, ".", ""])
def test_a_path_that_leads_elsewhere_has_changed(
    path: str, root: Path, tmp_path: Path, make_code_store: MakeStore, open_at: OpenAt
) -> None:
    (tmp_path / "outside.py").write_text("out")
    stored = make_code_store(tmp_path / "store.sqlite", FILES, root=root)
    with sqlite3.connect(stored) as made:
        made.execute("UPDATE files SET path = ?, size_bytes = 3 WHERE path = 'a.py'", (path,))
    made.close()
    assert _examined(open_at(stored), root) == {"files_changed": 1}


def test_a_store_in_the_checkout_that_is_being_read_keeps_its_lock(
    db: StoreConnection, root: Path, open_at: OpenAt, other_process: Callable[[Path], Any]
) -> None:
    """ANCHORS §5 case 12."""
    path = root / "a.py"
    path.unlink()
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE numbers (number)")
    writer = other_process(path)
    examined = _store_of(db, path)

    def read(store: StoreConnection) -> str:
        store.execute("SELECT * FROM numbers").fetchall()
        assert _examined(open_at(examined), root) == {"files_changed": 1}
        return str(writer.run("INSERT INTO numbers VALUES (1)"))

    assert ask(open_at(path), read, Budget.lasting(30)) == "database is locked"


def _store_of(db: StoreConnection, path: Path) -> Path:
    """Return a copy of the store in which the file has its size of now, so that it is read."""
    copy = db.path.with_name("copy.sqlite")
    shutil.copyfile(db.path, copy)
    with closing(sqlite3.connect(copy, isolation_level=None)) as made:
        made.execute("UPDATE files SET size_bytes = ? WHERE path = 'a.py'", (path.stat().st_size,))
    return copy


def test_looking_ends_with_its_budget(db: StoreConnection, root: Path) -> None:
    with pytest.raises(StoreError) as caught:
        _examined(db, root, Budget.lasting(0))
    assert caught.value.code == "deadline_exceeded"
