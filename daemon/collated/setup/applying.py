"""Does the steps of a setup, and takes them back. Each change of a file is one rename."""

import fcntl
import hashlib
import os
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from .journal import Before, Journal, Made, SetupError, decoded, encoded
from .model import FileStep, LinkStep, Step

__all__ = ["Undone", "Workshop", "content_of", "digest_of"]

_JOURNAL = "journal.json"
_NEW = ".collate-setup-new"
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


class Undone(Struct):
    """What taking back came to: paths that are as before, and why others were left as they are."""

    restored: list[str]
    kept: dict[str, str]


class Workshop:
    """The folder with the journal and the files as they were; one process at a time works in it."""

    def __init__(self, folder: Path) -> None:
        """Use *folder*, which need not exist."""
        self._folder = folder

    def journal(self) -> Journal:
        """Return what was done so far.

        Raises:
            SetupError: the journal cannot be read.
        """
        path = self._folder / _JOURNAL
        data = content_of(path)
        return Journal() if data is None else decoded(data, path)

    def apply(self, steps: Sequence[Step]) -> None:
        """Do *steps*, having written down what is there now.

        Raises:
            SetupError: another process is at it, or something is in the way.
            OSError: what the system said; what was done until then can be taken back.
        """
        _check(steps)
        missing = _missing_folders([self._folder / _JOURNAL, *(Path(step.path) for step in steps)])
        inside = [folder for folder in missing if folder == self._folder or folder in self._folder.parents]
        _make_folders(inside)
        with _alone_in(self._folder):
            _check(steps)  # again, now that nobody else is at it
            journal = self.journal()
            journal.made += [self._noted(step) for step in steps]
            journal.folders += [str(folder) for folder in missing]
            _write(self._folder / _JOURNAL, encoded(journal), _FILE_MODE)
            _make_folders(missing)
            for step in steps:
                _do(step)

    def _noted(self, step: Step) -> Made:
        """Return a step for the journal, having kept what is there before it is done."""
        if isinstance(step, LinkStep):
            return Made(step.path, step.target, is_link=True)
        if step.before is None:
            return Made(step.path, digest_of(step.content), added=step.added)
        about = Path(step.path).stat()
        before = Before(digest_of(step.before), stat.S_IMODE(about.st_mode), about.st_mtime_ns)
        _write(self._folder / before.digest, step.before, _FILE_MODE)
        return Made(step.path, digest_of(step.content), before=before, added=step.added)

    def undo(self) -> Undone:
        """Take everything back, last things first; what was changed since is left, and stays in the journal.

        Raises:
            SetupError: another process is at it, or the journal cannot be read.
        """
        done = Undone([], {})
        if not self._folder.is_dir():
            return done
        with _alone_in(self._folder):
            journal = self.journal()
            kept: list[Made] = []
            for made in reversed(journal.made):
                try:
                    if self._take_back(made):
                        done.restored.append(made.path)
                except (SetupError, OSError) as error:
                    done.kept[made.path] = str(error)
                    kept.insert(0, made)
            inside = (self._folder, *self._folder.parents)
            folders = [Path(folder) for folder in reversed(journal.folders)]
            _remove_empty(folder for folder in folders if folder not in inside)
            if kept:
                left = [folder for folder in journal.folders if Path(folder).is_dir()]
                _write(self._folder / _JOURNAL, encoded(Journal(made=kept, folders=left)), _FILE_MODE)
            else:
                self._leave(folder for folder in folders if folder in inside)
        return done

    def _take_back(self, made: Made) -> bool:
        """Bring back what was at a path; False when it is there already."""
        path = Path(made.path)
        if made.is_link:
            return _take_back_link(path, made.became)
        _new(path).unlink(missing_ok=True)  # of a run that was killed
        data = content_of(path)
        if data is None and made.before is None:
            return False
        if data is None:
            raise SetupError(f"it was removed since; what it held before is in {self._folder}")
        if made.before is not None and digest_of(data) == made.before.digest:
            return False
        if digest_of(data) != made.became:
            _cut(path, data, made.added.encode())
        elif made.before is None:
            path.unlink()
        else:
            self._bring_back(path, made.before)
        return True

    def _bring_back(self, path: Path, before: Before) -> None:
        data = content_of(self._folder / before.digest)
        if data is None or digest_of(data) != before.digest:
            raise SetupError(f"what it held before is no longer in {self._folder}")
        _write(path, data, before.mode, before.mtime_ns)

    def _leave(self, folders: Iterable[Path]) -> None:
        """Remove the workshop, and those of the *folders* above it that are empty then."""
        for file in sorted(self._folder.iterdir()):
            file.unlink()
        # The folder above is collated's own, and was perhaps made by a run that was killed at once.
        _remove_empty([self._folder, self._folder.parent, *folders])


def content_of(path: Path) -> bytes | None:
    """Return what the file at *path* holds, None where there is none; never blocks on a FIFO.

    Raises:
        SetupError: there is something, but no file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SetupError(f"{path} is not a file; move it away first")
        return file.read()


def _check(steps: Iterable[Step]) -> None:
    """Refuse steps whose places are no longer as they were when the steps were planned."""
    for step in steps:
        path = Path(step.path)
        if isinstance(step, LinkStep):
            if path.is_symlink() or path.exists():
                raise SetupError(f"{path} is there by now; run `collate setup` again")
        elif content_of(path) != step.before:
            raise SetupError(f"{path} was changed meanwhile; run `collate setup` again")


@contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise SetupError("another `collate setup` is at work; wait for its end") from error
    finally:
        os.close(descriptor)


def _cut(path: Path, data: bytes, added: bytes) -> None:
    """Take what was *added* out of a file that was edited since."""
    if not added or data.count(added) != 1:
        raise SetupError("it was changed since; edit it yourself")
    _write(path, data.replace(added, b""), stat.S_IMODE(path.stat().st_mode))


def _take_back_link(path: Path, target: str) -> bool:
    if not path.is_symlink() and not path.exists():
        return False
    if not path.is_symlink() or str(path.readlink()) != target:
        raise SetupError("it was changed since; remove it yourself")
    path.unlink()
    return True


def _do(step: Step) -> None:
    path = Path(step.path)
    if isinstance(step, FileStep):
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else _FILE_MODE
        _write(path, step.content, mode)
    else:
        path.symlink_to(step.target)


def _write(path: Path, data: bytes, mode: int, mtime_ns: int | None = None) -> None:
    """Replace the file at *path*; whoever reads it meets the old bytes or the new ones."""
    new = _new(path)
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        if mtime_ns is not None:
            os.utime(descriptor, ns=(mtime_ns, mtime_ns))
        os.fsync(descriptor)
    new.replace(path)


def _new(path: Path) -> Path:
    return path.with_name(f".{path.name}{_NEW}")


def digest_of(data: bytes) -> str:
    """Return what the journal knows *data* by."""
    return hashlib.sha256(data).hexdigest()


def _missing_folders(paths: Iterable[Path]) -> list[Path]:
    """Return the folders above *paths* that are not there, from the outside in."""
    missing = {folder for path in paths for folder in path.parents if not folder.exists()}
    return sorted(missing, key=lambda folder: len(folder.parts))


def _make_folders(folders: Iterable[Path]) -> None:
    for folder in folders:
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # somebody else's things are in it by now
            folder.rmdir()
