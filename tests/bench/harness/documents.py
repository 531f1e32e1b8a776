"""The real documents of `data/docs`, beside the checkout, and ContextPull stores of them."""

import hashlib
import os
import re
import tarfile
import tempfile
from collections.abc import Collection
from pathlib import Path

from contextpull.ingest import ingest  # type: ignore[import-untyped]  # the package has no types

__all__ = ["Documents", "shared_data"]

_ARCHIVE, _README = "docs.tar.xz", "README.md"
_SHARED = Path(__file__).parents[4] / "shared"
# A row of the README's table begins with the project's name and `owner/repository`.
_ROW = re.compile(r"^\| *([a-z0-9-]+) *\| *[\w.-]+/[\w.-]+ *\|", re.MULTILINE)


def shared_data(name: str) -> Path:
    """Return the folder of one kind of data in the shared folder, which `COLLATE_SHARED` names."""
    return Path(os.environ.get("COLLATE_SHARED", _SHARED)) / "data" / name


class Documents:
    """One archive of documentation sets, a folder for each project."""

    def __init__(self, folder: Path | None = None) -> None:
        """Read from *folder*, by default from that of the shared data."""
        self._folder = folder or shared_data("docs")

    @property
    def is_there(self) -> bool:
        """Tell whether the documents are on this machine."""
        return (self._folder / _ARCHIVE).is_file()

    def sha256(self) -> str:
        """Return the digest of the archive."""
        return hashlib.sha256((self._folder / _ARCHIVE).read_bytes()).hexdigest()

    def order(self) -> list[str]:
        """Return the projects' names in the order in which federations are formed."""
        return _ROW.findall((self._folder / _README).read_text(encoding="utf-8"))

    def build(self, folder: Path, names: Collection[str]) -> list[Path]:
        """Write the stores of the projects *names* into *folder*, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        made = [folder / f"{name}.sqlite" for name in names]
        with tempfile.TemporaryDirectory(prefix="collated-bench-") as sources:
            self._unpack(Path(sources), names)
            for name, store in zip(names, made, strict=True):
                ingest(Path(sources) / name, store)
        return made

    def _unpack(self, folder: Path, names: Collection[str]) -> None:
        # As a stream: to go back to a file of a compressed archive is to unpack it all once more.
        with tarfile.open(self._folder / _ARCHIVE, "r|xz") as archive:
            for member in archive:
                if _project(member.name) in names:
                    archive.extract(member, folder, filter="data")


def _project(member: str) -> str:
    return next(iter(Path(member).parts), "")
