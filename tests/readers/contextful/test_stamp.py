"""The signature of a store: what changes it, what does not, and where the next change will show."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collated_readers.contextful.loading import load_store
from collated_readers.contextful.stamp import project_of, stamp_of

MakeStore = Callable[..., Any]
LOGGED = {"logged": True, "pipeline": "feed", "fence": 1}


class Made:
    """A store of one table, and what is done to it."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.table = store.table("kb/t", {"id": "utf8"}, primary_key=["id"])
        self.table.run("run-0", [{"id": "a"}], "2030-01-01T00:00:00Z")
        self.table.fold("2030-01-01T12:00:00Z")
        self.table.run("run-1", [{"id": "b"}], "2030-01-02T00:00:00Z", **LOGGED)
        self.table.run("run-2", [{"id": "b"}], "2030-01-02T00:00:00Z", manifest=False)
        self.table.ledger("run-0", [{"request_id": "q"}])
        self.folder: Path = self.table.folder

    def write(self, path: str, text: str = "{}") -> Path:
        written: Path = self.store.write(self.store.project / path, text)
        return written

    def link(self, path: str) -> None:
        (self.store.root / path).symlink_to(self.store.project)


@pytest.fixture
def made(make_context_store: MakeStore) -> Made:
    """The store, with a run in flight and one that waits for its entry in the log."""
    made = Made(make_context_store())
    made.write("pipelines/feed.toml", "")
    return made


CHANGES: dict[str, Callable[[Made], object]] = {
    "a commit": lambda made: made.table.run("run-3", [{"id": "c"}], "2030-01-03T00:00:00Z"),
    "a run without rows": lambda made: made.table.run("run-3", [], "2030-01-03T00:00:00Z"),
    "a run of another node": lambda made: made.table.run("run-2", [], "2030-01-03T00:00:00Z", node="b"),
    "a run that ends its flight": lambda made: made.table.run("run-2", [{"id": "b"}], "2030-01-02T00:00:00Z"),
    "an entry of the log": lambda made: made.table.log("feed", "ingest-a", "run-1", 1),
    "an entry of another log": lambda made: made.table.log("other", "n", "run-1", 1),
    "a fold": lambda made: made.table.fold("2030-01-04T00:00:00Z"),
    "a run that was collected": lambda made: made.table.retire("run-0/ingest-a"),
    "a landed column": lambda made: made.table.run("run-3", [], columns={"late": "utf8"}),
    "a table": lambda made: made.store.table("new", {"id": "utf8"}),
    "a table below another": lambda made: made.store.table("kb/t/below", {"id": "utf8"}),
    "a ledger": lambda made: made.table.ledger("run-1", [{"request_id": "q"}]),
    "the first ledger of a table": lambda made: made.store.table("o", {"id": "utf8"}).ledger("r", []),
    "a declaration": lambda made: made.store.declare("# more\n"),
    "a pipeline": lambda made: made.write("pipelines/more.json"),
    "a pipeline that is edited": lambda made: made.write("pipelines/feed.toml", "# more"),
    "an erasure": lambda made: made.write(".contextful/context/research/_erasure_frontier.json"),
    "a configuration": lambda made: made.write(".contextful/context/research/config.toml", ""),
    "a symlink for a table": lambda made: made.link("tables/linked"),
}

# Within the folder of a committed run, of which there are too many to watch: the next question finds it.
UNSEEN = ("a run of another node", "a run that was collected")

NO_CHANGES: dict[str, Callable[[Made], object]] = {
    "litter": lambda made: made.table.litter(),
    "a run in flight": lambda made: made.table.run("run-3", [{"id": "x"}], manifest=False),
    "locks and catalogs": lambda made: [
        made.write(f".contextful/context/research/{name}")
        for name in ("derived.sqlite", "tables/kb/t/commit.lock", "tables/kb/t/schema.json.lock", "blobs/ab")
    ],
    "what lies elsewhere in the project": lambda made: made.write("notes.toml"),
    "another project's store": lambda made: made.write(".contextful/context/other/tables/t/schema.json"),
    "reading": lambda made: load_store(made.store.root),
}


@pytest.mark.rule("change-misses", "frontier-invalidates", "session-pool")
@pytest.mark.parametrize("name", CHANGES)
def test_the_digest_changes_with(made: Made, name: str) -> None:
    before = stamp_of(str(made.store.root))
    CHANGES[name](made)
    after = stamp_of(str(made.store.root))
    assert after.digest != before.digest
    if name != "an erasure":
        assert load_store(made.store.root).digest == after.digest


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_in_a_store_of_which_the_runs_are_known(made: Made, name: str) -> None:
    _date_runs(made, 0)
    before = stamp_of(str(made.store.root))
    assert stamp_of(str(made.store.root)) == before
    CHANGES[name](made)
    after = stamp_of(str(made.store.root))
    assert after.digest != before.digest
    _date_runs(made, 1)  # so that all are listed again
    assert stamp_of(str(made.store.root)) == after


def _date_runs(made: Made, second: int) -> None:
    for run in (made.folder / "data" / "runs").iterdir():
        os.utime(run, (second, second))


@pytest.mark.parametrize("name", NO_CHANGES)
def test_the_digest_does_not_change_with(made: Made, name: str) -> None:
    before = stamp_of(str(made.store.root))
    NO_CHANGES[name](made)
    assert stamp_of(str(made.store.root)).digest == before.digest


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in UNSEEN])
def test_every_change_shows_in_a_directory_that_was_told(made: Made, name: str) -> None:
    told = stamp_of(str(made.store.root)).directories
    assert len(set(told)) == len(told)
    before = _times(told)
    CHANGES[name](made)
    assert _times(told) != before


def _times(directories: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Return when each directory last changed, and how many entries it has."""
    folders = [Path(path) for path in directories]
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_ino, len([*path.iterdir()])) for path in folders
    }


def test_a_stamp_says_when_and_how_much(made: Made) -> None:
    path = made.store.root / "config.toml"
    os.utime(path, ns=(1, 2_000_000_000_000_000_000))
    seen = stamp_of(str(made.store.root))
    assert seen.newest_ns == 2_000_000_000_000_000_000
    assert seen.size_bytes > path.stat().st_size


def test_symlinks_and_what_is_gone_are_no_failure(made: Made, tmp_path: Path) -> None:
    for name in ("loop", "nowhere"):
        made.link(f"tables/{name}")
        (made.store.root / "tables" / name).unlink()
        (made.store.root / "tables" / name).symlink_to(name)
    for name in ("runs", "snapshots"):
        (made.folder / "data" / name).rename(made.store.project / name)
        (made.folder / "data" / name).symlink_to(made.store.project / name)
    seen = stamp_of(str(made.store.root))
    assert not [path for path in seen.directories if path.startswith(str(made.folder / "data" / "runs"))]
    assert stamp_of(str(tmp_path / "nothing")).size_bytes == 0


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("/p/.contextful/context/a", ("/p", "a")),
        ("/p/.contextful/context/a/b/", ("/p", "a/b")),
        ("/.contextful/context/a", ("/", "a")),
        ("/p/.contextful/context/q/.contextful/context/a", ("/p/.contextful/context/q", "a")),
        ("/p/elsewhere/a", (None, "a")),
        ("/p/.contextful/context", (None, "context")),
    ],
)
def test_a_store_lies_below_its_project(root: str, expected: tuple[str | None, str]) -> None:
    assert project_of(root) == expected
