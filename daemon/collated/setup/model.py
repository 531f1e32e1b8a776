"""What the parts of the setup hand each other."""

from collections.abc import Mapping

from msgspec import Struct

from collated.settings import Pinned, Watched

__all__ = ["FileStep", "LinkStep", "Looked", "Plan", "SeenStore", "Step"]


class SeenStore(Struct, frozen=True):
    """A store that was found; *path* is the real one and may hold surrogates, as `os.fsdecode` makes them.

    *format* is empty while a program is writing it; *project* is the folder of the project it belongs to,
    None of a file that lies by itself.
    """

    path: str
    format: str
    project: str | None


class Looked(Struct, frozen=True):
    """What a walk found: stores by path, why what looked like one is none, and what matters for patterns.

    *crowded* are folders with so many subfolders that watching each would cost too much; *strangers* are
    pairs of a folder and a suffix of which not all files there are stores.
    """

    stores: Mapping[str, SeenStore]
    left_out: Mapping[str, str]
    crowded: frozenset[str]
    strangers: frozenset[tuple[str, str]]
    folders: int


class Plan(Struct, frozen=True):
    """How the daemon is to find stores: entries of the configuration, and stores that need a link."""

    watched: tuple[Watched, ...] = ()
    pinned: tuple[Pinned, ...] = ()
    linked: tuple[str, ...] = ()


class FileStep(Struct, frozen=True):
    """A file that is to hold *content*; *before* is what it held when that was decided, None without one.

    *added* is the part of *content* that can be cut out again where the rest was edited since.
    """

    path: str
    content: bytes
    before: bytes | None = None
    added: str = ""


class LinkStep(Struct, frozen=True):
    """A symlink that is to lead to *target*; nothing may be at *path* yet."""

    path: str
    target: str


Step = FileStep | LinkStep
