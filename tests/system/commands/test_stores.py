"""Adding, removing and following stores."""

from __future__ import annotations

import itertools
import json
import select
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.system.commands.conftest import Collate, StartCollate
    from tests.system.conftest import Daemon


TIMEOUT_S = 30
MakeDocs = Callable[[Path], Path]
MakeCodeStore = Callable[..., Path]


def test_a_project_is_added_by_its_directory_and_searched_at_once(
    home: Daemon, project: Path, collate: Collate
) -> None:
    ran = collate(home, "add", str(project))
    assert ran.code == 0
    assert ran.out.split()[:2] == ["my-project", "open"]
    link = home.stores / "my-project.sqlite"
    assert link.is_symlink()
    assert link.resolve() == project / ".contextpull" / "store.sqlite"
    assert collate(home, "search", "refund").code == 0
    again = collate(home, "add", str(project))
    assert (again.code, again.out) == (0, ran.out)
    assert [each.name for each in home.stores.iterdir()] == [link.name]


def test_a_project_with_stores_of_several_formats_is_added_with_all_of_them(
    home: Daemon, project: Path, collate: Collate, make_code_store: MakeCodeStore
) -> None:
    code = project / ".claude" / "cache" / "codebase-index" / "index.sqlite"
    make_code_store(code, {"pay.py": "def refund():\n    return 1\n"})
    named = collate(home, "add", str(project), "--name", "one")
    assert named.code == 2
    assert "--name is for one store" in named.err

    ran = collate(home, "add", str(project))

    assert ran.code == 0
    # Below the second stands what is wrong with it, where the program has no grammars.
    assert [line.split()[:3] for line in ran.out.splitlines() if not line.startswith(" ")] == [
        ["my-project-docs", "open", "contextpull"],
        ["my-project-code", "open", "codebase-index"],
    ]
    found = collate(home, "search", "refund", "--json").json["hits"]
    assert {hit["store"] for hit in found} == {"my-project-docs", "my-project-code"}
    assert len(collate(home, "add", str(project), "--json").json["stores"]) == 2


def test_a_store_is_added_by_its_file_under_a_name_of_ones_own(
    home: Daemon, project: Path, collate: Collate
) -> None:
    store = project / ".contextpull" / "store.sqlite"
    ran = collate(home, "add", str(store), "--name", "handbook", "--json")
    assert (ran.json["name"], ran.json["path"], ran.json["state"]) == ("handbook", str(store), "open")
    assert collate(home, "add", str(project)).out.startswith("handbook ")
    other = collate(home, "add", str(project), "--name", "guide")
    assert other.code == 2
    assert "was added as handbook" in other.err


def test_a_name_that_is_taken_is_an_error(
    home: Daemon, project: Path, tmp_path: Path, make_docs: MakeDocs, collate: Collate
) -> None:
    assert collate(home, "add", str(project), "--name", "docs").code == 0
    other = make_docs(tmp_path / "docs.sqlite")
    ran = collate(home, "add", str(other))
    assert ran.code == 2
    assert "the name docs is taken by" in ran.err
    assert "--name" in ran.err


def test_what_cannot_be_added_is_told_before_anything_is_made(
    home: Daemon, tmp_path: Path, make_docs: MakeDocs, collate: Collate
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    many = tmp_path / "many"
    make_docs(many / ".contextpull" / "a.sqlite")
    shutil.copy(many / ".contextpull" / "a.sqlite", many / ".contextpull" / "b.sqlite")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for typed, said in (
        ([str(tmp_path / "nowhere")], "No such file"),
        ([str(empty)], f"contextpull ingest {empty}"),
        ([str(many)], "several stores; name one of them"),
        ([str(loop)], "loop"),
        ([str(many / ".contextpull" / "a.sqlite"), "--name", "Not A Name"], "cannot be a name"),
    ):
        ran = collate(home, "add", *typed)
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err
    assert list(home.stores.iterdir()) == []


def test_a_file_that_is_no_store_is_linked_and_its_reason_shown(
    home: Daemon, tmp_path: Path, collate: Collate
) -> None:
    (tmp_path / "novel.sqlite").write_text("Once upon a time")
    ran = collate(home, "add", str(tmp_path / "novel.sqlite"))
    assert ran.code == 1
    assert "refused" in ran.out
    assert "(not_sqlite)" in ran.out


def test_what_is_added_is_found_whatever_else_is_watched(
    home: Daemon, project: Path, collate: Collate
) -> None:
    home.configure(f"[[watch]]\npath = '{project.parent}'\n")
    assert collate(home, "add", str(project)).code == 0
    assert "my-project" in collate(home, "stores").out


def test_removing_takes_the_link_and_never_the_store(home: Daemon, project: Path, collate: Collate) -> None:
    store = project / ".contextpull" / "store.sqlite"
    before = store.read_bytes()
    collate(home, "add", str(project))
    ran = collate(home, "remove", "my-project")
    assert ran.code == 0
    assert "the store is untouched" in ran.out
    assert list(home.stores.iterdir()) == []
    assert store.read_bytes() == before
    assert collate(home, "stores", "--json").json == {"stores": []}
    again = collate(home, "remove", "my-project", "--json")
    assert again.code == 1


def test_a_link_that_leads_nowhere_is_removed_without_a_daemon(home: Daemon, collate: Collate) -> None:
    (home.stores / "gone.sqlite").symlink_to("/nonexistent/store.sqlite")
    assert "did you mean gone?" in collate(home, "remove", "gon").err
    assert collate(home, "remove", "gone", "--json").json == {"added": [], "changed": [], "removed": ["gone"]}
    assert list(home.stores.iterdir()) == []
    assert not home.socket.exists()


def test_removing_what_was_not_added_explains_why_not(
    home: Daemon, project: Path, make_docs: MakeDocs, collate: Collate
) -> None:
    projects = f"[[watch]]\npath = '{project.parent}'\nmatch = ['*/.contextpull/*.sqlite']\n"
    home.configure(f"{projects}[[watch]]\npath = '{home.stores}'\n")
    make_docs(home.stores / "own.sqlite")
    assert collate(home, "stores").code == 0
    found = collate(home, "remove", "my-project")
    assert (found.code, "a [[watch]] or [[store]] entry" in found.err) == (2, True)
    own = collate(home, "remove", "own")
    assert (own.code, "delete that file yourself" in own.err) == (2, True)
    assert (home.stores / "own.sqlite").exists()


def connected(daemon: Daemon, start_collate: StartCollate, *args: str) -> subprocess.Popen[bytes]:
    """Start a command and return it once it is connected to *daemon*."""
    with daemon.client() as client:
        # Whoever asked before may not be quite gone yet.
        daemon.wait_for(lambda: client.ask("status")["connections"] == 1, what="the others to leave")
        process = start_collate(daemon, *args, "--no-spawn")
        daemon.wait_for(lambda: client.ask("status")["connections"] > 1, what="the command to connect")
    return process


def test_changes_are_followed_until_interrupted(
    daemon: Daemon, make_docs: MakeDocs, start_collate: StartCollate
) -> None:
    process = connected(daemon, start_collate, "watch", "--json")
    assert process.stdout is not None
    told, numbers = process.stdout, itertools.count()

    def is_told() -> bool:  # connected, it may not have subscribed yet
        make_docs(daemon.stores / f"new{next(numbers)}.sqlite")
        return bool(select.select([told], [], [], 1.0)[0])

    daemon.wait_for(is_told, what="a change to be told")
    changes = json.loads(told.readline())
    assert (changes["changed"], changes["removed"]) == ([], [])
    assert changes["added"][0].startswith("new")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, said) == (130, b"")


def test_watching_ends_when_the_daemon_does(daemon: Daemon, start_collate: StartCollate) -> None:
    process = connected(daemon, start_collate, "watch")
    assert daemon.stop() == 0
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 69
    # One that had not subscribed yet may have been told that the daemon is stopping.
    assert said.startswith(b"collate: the daemon ")
