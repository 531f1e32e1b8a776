"""What was changed and what was there before, so that it can be taken back: JSON in the state directory.

It is written before anything is done. What it lists and was not done is seen when it is taken back: the
place looks as it did before.
"""

import json
from pathlib import Path

import msgspec
from msgspec import Struct, field

from collated.errors import CollatedError

__all__ = ["Before", "Journal", "Made", "SetupError", "decoded", "encoded"]


class SetupError(CollatedError):
    """What was asked cannot be done here; the message says why and what to do."""

    code = "setup_refused"


class Before(Struct, frozen=True):
    """A file as it was: the digest of its bytes, which are kept under that name, its mode and time stamp."""

    digest: str
    mode: int
    mtime_ns: int


class Made(Struct, frozen=True):
    """A file or a symlink that was made or changed. *became* is the digest of its bytes, or its target.

    *added* is as that of `FileStep`.
    """

    path: str
    became: str
    is_link: bool = False
    before: Before | None = None
    added: str = ""


class Journal(Struct):
    """All that was made, in order, and the folders that were made for it, from the outside in."""

    version: int = 1
    made: list[Made] = field(default_factory=list[Made])
    folders: list[str] = field(default_factory=list[str])


def encoded(journal: Journal) -> bytes:
    """Return *journal* as JSON; paths that are not UTF-8 are written as escapes."""
    return json.dumps(msgspec.to_builtins(journal), indent=1).encode() + b"\n"


def decoded(data: bytes, path: Path) -> Journal:
    """Return the journal that *data* holds.

    Raises:
        SetupError: it is damaged, or of a later version; *path* is named.
    """
    try:
        journal = msgspec.convert(json.loads(data), Journal)
    except ValueError as error:  # of json and of msgspec
        raise SetupError(f"{path} is damaged ({error}); what it lists must be taken back by hand") from error
    if journal.version != Journal().version:
        raise SetupError(f"{path} was written by another version of collated; use that one")
    return journal
