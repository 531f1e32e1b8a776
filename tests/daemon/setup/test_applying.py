"""Steps done and taken back, whatever happens between: the folder is compared as a whole."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.setup.applying import Workshop, content_of
from collated.setup.journal import SetupError
from collated.setup.model import FileStep, LinkStep, Step

if TYPE_CHECKING:
    from tests.conftest import Program

Tree = dict[str, tuple[object, ...]]

# Ends itself with SIGKILL instead of doing the change of the given number below the folder.
KILLED = """
import os, signal, sys
from pathlib import Path
from collated.setup.applying import Workshop
from collated.setup.model import FileStep, LinkStep
home, last = Path(sys.argv[1]), int(sys.argv[2])
seen = 0
CHANGES = {"os.mkdir", "os.rename", "os.symlink", "os.remove", "os.rmdir", "os.utime", "os.chmod"}
def audit(event, args):
    global seen
    is_write = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
    if (event in CHANGES or is_write):
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(audit)
workshop = Workshop(home / "state" / "collated" / "setup")
if sys.argv[3] == "undo":
    workshop.undo()
else:
    workshop.apply([
        FileStep(str(home / "config.toml"), b"mine\\nours\\n", b"mine\\n"),
        FileStep(str(home / "units" / "user" / "a.service"), b"unit"),
        LinkStep(str(home / "units" / "user" / "wants" / "a"), "../a.service"),
    ])
print("whole", flush=True)
"""


def tree(home: Path) -> Tree:
    return {str(path.relative_to(home)): entry(path) for path in home.rglob("*")}


def entry(path: Path) -> tuple[object, ...]:
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        return ("link", str(path.readlink()))
    if stat.S_ISDIR(about.st_mode):
        return ("folder", about.st_mode)
    return ("file", about.st_mode, about.st_mtime_ns, path.read_bytes())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    config = tmp_path / "config.toml"
    config.write_bytes(b"mine\n")
    config.chmod(0o640)
    os.utime(config, ns=(1_000_000_007, 1_000_000_007))
    return tmp_path


@pytest.fixture
def workshop(home: Path) -> Workshop:
    return Workshop(home / "state" / "collated" / "setup")


def steps(home: Path) -> list[Step]:
    return [
        FileStep(str(home / "config.toml"), b"mine\nours\n", content_of(home / "config.toml")),
        FileStep(
            str(home / "units" / "user" / "a.service"),
            b"unit",
            content_of(home / "units" / "user" / "a.service"),
        ),
        LinkStep(str(home / "units" / "user" / "wants" / "a"), "../a.service"),
    ]


def test_steps_are_done_and_taken_back(home: Path, workshop: Workshop) -> None:
    before = tree(home)

    workshop.apply(steps(home))

    assert (home / "config.toml").read_bytes() == b"mine\nours\n"
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o640
    assert (home / "units" / "user" / "wants" / "a").read_bytes() == b"unit"
    undone = workshop.undo()
    assert len(undone.restored) == 3
    assert undone.kept == {}
    assert tree(home) == before


def test_what_was_there_is_kept_byte_for_byte(home: Path, workshop: Workshop) -> None:
    workshop.apply(steps(home))

    made = workshop.journal().made[0]
    assert made.before is not None
    assert (home / "state" / "collated" / "setup" / made.before.digest).read_bytes() == b"mine\n"


def test_later_steps_are_taken_back_first(home: Path, workshop: Workshop) -> None:
    before = tree(home)
    config = str(home / "config.toml")

    workshop.apply(steps(home))
    workshop.apply(
        [FileStep(config, b"mine\nours\nmore\n", b"mine\nours\n"), FileStep(str(home / "new" / "b"), b"b")]
    )

    assert workshop.undo().kept == {}
    assert tree(home) == before


def test_what_was_added_is_cut_out_of_a_file_that_was_edited_since(home: Path, workshop: Workshop) -> None:
    config = home / "config.toml"
    workshop.apply([FileStep(str(config), b"mine\n\n[ours]\n", b"mine\n", "[ours]\n")])
    config.write_bytes(b"# by hand\nmine\n\n[ours]\n# by hand too\n")
    config.chmod(0o604)

    undone = workshop.undo()

    assert (undone.restored, undone.kept) == ([str(config)], {})
    assert config.read_bytes() == b"# by hand\nmine\n\n# by hand too\n"
    assert stat.S_IMODE(config.stat().st_mode) == 0o604


@pytest.mark.parametrize("edited", [b"mine\n[our", b"[ours]\n[ours]\n", b""])
def test_what_was_added_and_is_not_there_as_it_was_is_left(
    home: Path, workshop: Workshop, edited: bytes
) -> None:
    config = home / "config.toml"
    workshop.apply([FileStep(str(config), b"mine\n[ours]\n", b"mine\n", "[ours]\n")])
    config.write_bytes(edited)
    assert [*workshop.undo().kept] == [str(config)]
    assert config.read_bytes() == edited


def test_a_file_that_was_changed_since_is_kept_and_named(home: Path, workshop: Workshop) -> None:
    workshop.apply(steps(home))
    config = home / "config.toml"
    config.write_bytes(b"mine\nours\nby hand\n")

    undone = workshop.undo()

    assert undone.kept == {str(config): "it was changed since; edit it yourself"}
    assert config.read_bytes() == b"mine\nours\nby hand\n"
    assert not (home / "units").exists()
    config.write_bytes(b"mine\nours\n")  # once it is as it was left, it can be taken back after all
    assert workshop.undo().kept == {}
    assert config.read_bytes() == b"mine\n"
    assert not (home / "state").exists()


def test_a_file_that_was_removed_since_is_named_with_where_its_past_is(
    home: Path, workshop: Workshop
) -> None:
    workshop.apply(steps(home))
    (home / "config.toml").unlink()
    (home / "units" / "user" / "a.service").unlink()  # it was not there before either

    (reason,) = workshop.undo().kept.values()

    assert str(home / "state" / "collated" / "setup") in reason
    assert not (home / "config.toml").exists()


def test_a_link_that_leads_elsewhere_by_now_is_kept(home: Path, workshop: Workshop) -> None:
    workshop.apply(steps(home))
    link = home / "units" / "user" / "wants" / "a"
    link.unlink()
    link.symlink_to("elsewhere")

    assert list(workshop.undo().kept) == [str(link)]


def test_folders_with_somebody_elses_things_stay(home: Path, workshop: Workshop) -> None:
    workshop.apply(steps(home))
    (home / "units" / "theirs").touch()
    (home / "state" / "collated" / "state.sqlite").touch()

    assert workshop.undo().kept == {}

    assert set(tree(home)) == {
        "config.toml",
        "units",
        "units/theirs",
        "state",
        "state/collated",
        "state/collated/state.sqlite",
    }


def test_paths_that_are_no_text_come_through_the_journal(home: Path, workshop: Workshop) -> None:
    before = tree(home)
    folder = os.fsdecode(b"\xff\n\x1b")

    workshop.apply([LinkStep(str(home / folder / "a"), folder), FileStep(str(home / folder / "b"), b"\xff")])

    assert os.readlink(home / folder / "a") == folder  # noqa: PTH115 - as it was written
    assert workshop.undo().kept == {}
    assert tree(home) == before


def test_nothing_was_made_nothing_is_taken_back(home: Path, workshop: Workshop) -> None:
    before = tree(home)

    assert workshop.journal().made == []
    assert workshop.undo().restored == []
    assert tree(home) == before


def test_what_was_changed_meanwhile_is_not_written_over(home: Path, workshop: Workshop) -> None:
    planned = steps(home)
    (home / "config.toml").write_bytes(b"mine, and more\n")

    with pytest.raises(SetupError, match="was changed meanwhile"):
        workshop.apply(planned)

    (home / "config.toml").write_bytes(b"mine\n")
    (home / "units" / "user" / "wants").mkdir(parents=True)
    (home / "units" / "user" / "wants" / "a").symlink_to("theirs")
    with pytest.raises(SetupError, match="is there by now"):
        workshop.apply(planned)

    assert (home / "config.toml").read_bytes() == b"mine\n"
    assert not (home / "units" / "user" / "a.service").exists()
    assert not (home / "state").exists()


def test_a_thing_in_the_way_is_left_alone(home: Path, workshop: Workshop) -> None:
    planned = steps(home)
    (home / "config.toml").unlink()
    os.mkfifo(home / "config.toml")

    with pytest.raises(SetupError, match="is not a file"):
        workshop.apply(planned)

    assert stat.S_ISFIFO((home / "config.toml").stat().st_mode)
    assert not (home / "units").exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 1, "made": 5}', b"\xff"])
def test_a_damaged_journal_is_refused_and_left(home: Path, workshop: Workshop, damage: bytes) -> None:
    workshop.apply(steps(home))
    journal = home / "state" / "collated" / "setup" / "journal.json"
    journal.write_bytes(damage)

    with pytest.raises(SetupError, match="is damaged"):
        workshop.undo()

    assert journal.read_bytes() == damage


def test_a_journal_of_another_version_is_refused(home: Path, workshop: Workshop) -> None:
    workshop.apply(steps(home))
    (home / "state" / "collated" / "setup" / "journal.json").write_text('{"version": 2}')

    with pytest.raises(SetupError, match="another version"):
        workshop.undo()


def test_two_at_once_are_one_too_many(home: Path, workshop: Workshop) -> None:
    workshop.apply(steps(home))
    other = os.open(home / "state" / "collated" / "setup", os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(SetupError, match="another `collate setup`"):
            workshop.undo()
    finally:
        os.close(other)


def is_whole(program: Program, home: Path, last: int, what: str) -> bool:
    """Run it, ending at change number *last*; tell whether it came to its end before."""
    process = program(KILLED, home, last, what)
    said, _ = process.communicate(timeout=30)
    return said == "whole\n"


def state_folders(home: Path) -> Tree:
    """What is left of a run that was killed before it wrote anything down: empty folders for the state."""
    return {path: each for path, each in tree(home).items() if path in ("state", "state/collated")}


Repaired = Callable[[Path, Workshop], object]


def undone(_: Path, workshop: Workshop) -> None:
    assert workshop.undo().kept == {}


def repeated(home: Path, workshop: Workshop) -> None:
    done = [step for step in steps(home) if not os.path.lexists(step.path) or isinstance(step, FileStep)]
    workshop.apply(done)
    assert (home / "config.toml").read_bytes() == b"mine\nours\n"
    assert (home / "units" / "user" / "wants" / "a").read_bytes() == b"unit"
    assert workshop.undo().kept == {}


@pytest.mark.slow
@pytest.mark.parametrize("repaired", [undone, repeated])
def test_killed_at_any_change_it_can_be_taken_back_or_repeated(
    home: Path, workshop: Workshop, program: Program, repaired: Repaired
) -> None:
    before = tree(home)
    for last in range(1, 100):
        done = is_whole(program, home, last, "apply")

        repaired(home, workshop)

        after = tree(home)
        assert after.items() - state_folders(home).items() == before.items(), last
        if done:
            assert last > 15
            return
        for folder in ("state/collated", "state"):
            if (home / folder).is_dir():
                (home / folder).rmdir()
    pytest.fail("it never came to its end")


@pytest.mark.slow
def test_killed_while_it_is_taken_back_the_next_one_ends_it(
    home: Path, workshop: Workshop, program: Program
) -> None:
    before = tree(home)
    for last in range(1, 100):
        workshop.apply(steps(home))
        done = is_whole(program, home, last, "undo")

        assert workshop.undo().kept == {}

        assert tree(home).items() - state_folders(home).items() == before.items(), last
        if done:
            assert last > 8
            return
        for folder in ("state/collated", "state"):
            if (home / folder).is_dir():
                (home / folder).rmdir()
    pytest.fail("it never came to its end")
