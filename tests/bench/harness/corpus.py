"""The real stores of the made-up projects, kept between runs (ANCHORS §1)."""

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

from contextpull.ingest import ingest  # type: ignore[import-untyped]  # the package has no types

from .projects import SEED, SHAPE, project_name, write_project, write_small

__all__ = ["Corpus"]

_CHUNK = 4


class Corpus:
    """The stores of one seed in a cache folder. `view` and its like lay some of them out for one run.

    They make hard links: the daemon and the reference read the same bytes from the same page cache,
    and the empty `-wal` and `-shm` that the reference leaves beside a store stay on its own side.
    """

    def __init__(self, cache: Path, seed: int = SEED) -> None:
        """Keep stores below *cache*, by seed, shape and the version of the program that writes them."""
        self._folder = cache / f"seed-{seed}-shape-{SHAPE}-contextpull-{version('contextpull')}"
        self._seed = seed

    def build(self, count: int) -> int:
        """Make what is missing of the first *count* stores, on all cores, and return how many that was."""
        return self._make(self._build, [n for n in range(count) if not self._path(n).exists()])

    def view(self, folder: Path, numbers: Iterable[int]) -> list[Path]:
        """Link the stores *numbers*, which are made where missing, into *folder*; return their paths."""
        chosen = list(numbers)
        self._make(self._build, [n for n in chosen if not self._path(n).exists()])
        folder.mkdir(parents=True, exist_ok=True)
        return [_link(self._path(n), folder / self._path(n).name) for n in chosen]

    def sources(self, folder: Path, count: int) -> Path:
        """Link the files of the first *count* projects into folders below *folder*, and return that."""
        self._make(self._write, [n for n in range(count) if not self._sources(n).exists()])
        for number in range(count):
            target = folder / project_name(number)
            target.mkdir(parents=True)
            for file in self._sources(number).iterdir():
                _link(file, target / file.name)
        return folder

    def single(self, count: int) -> Path:
        """Return the one store of all documents of the first *count* projects, with paths PROJECT/PATH."""
        path = self._folder / f"single-{count}.sqlite"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="sources-", dir=self._folder) as name:
                _ingest(self.sources(Path(name), count), path)
        return path

    def view_single(self, folder: Path, count: int) -> Path:
        """Link `single` into *folder* and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        return _link(self.single(count), folder / f"single-{count}.sqlite")

    def view_small(self, folder: Path, count: int) -> list[Path]:
        """Link *count* small stores, which are made where missing, into *folder*; return their paths."""
        self._make(self._build_small, [n for n in range(count) if not self._small(n).exists()])
        folder.mkdir(parents=True, exist_ok=True)
        return [_link(self._small(n), folder / self._small(n).name) for n in range(count)]

    def scratch(self) -> Path:
        """Return a new folder beside the stores, so that links work in it; the caller removes it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for old in self._folder.glob("run-*-*"):
            if not _is_running(int(old.name.split("-")[1])):  # it was killed
                shutil.rmtree(old)
        return Path(tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=self._folder))

    # ----------------------------------------------------------------- where and how

    def _path(self, number: int) -> Path:
        return self._folder / f"{project_name(number)}.sqlite"

    def _sources(self, number: int) -> Path:
        return self._folder / "sources" / project_name(number)

    def _small(self, number: int) -> Path:
        return self._folder / "small" / f"small-{number:05d}.sqlite"

    def _make(self, make: Callable[[int], None], missing: list[int]) -> int:
        if missing:
            self._folder.mkdir(parents=True, exist_ok=True)
            with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
                list(pool.map(make, missing, chunksize=_CHUNK))
        return len(missing)

    def _build(self, number: int) -> None:
        with tempfile.TemporaryDirectory(prefix="collated-bench-") as name:
            write_project(Path(name), self._seed, number)
            _ingest(Path(name), self._path(number))

    def _build_small(self, number: int) -> None:
        with tempfile.TemporaryDirectory(prefix="collated-bench-") as name:
            write_small(Path(name), self._seed, number)
            _ingest(Path(name), self._small(number))

    def _write(self, number: int) -> None:
        folder = self._sources(number)
        folder.parent.mkdir(exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=self._folder))
        write_project(partial, self._seed, number)
        partial.rename(folder)


def _ingest(sources: Path, target: Path) -> None:
    """Write the store of *sources*; nothing half done is ever seen under its name."""
    with tempfile.TemporaryDirectory(prefix="collated-bench-") as name:
        made = Path(name) / target.name
        ingest(sources, made)
        target.parent.mkdir(exist_ok=True)
        partial = target.with_suffix(".partial")
        shutil.copyfile(made, partial)
        partial.replace(target)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _link(file: Path, target: Path) -> Path:
    try:
        os.link(file, target)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        shutil.copyfile(file, target)
    return target
