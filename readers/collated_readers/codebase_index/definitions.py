"""What a name stands for: the symbols called so, or, of `Owner.member`, the members of that owner."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from collated_readers.code import Symbol
from collated_readers.contract import StoreError
from collated_readers.secrets import redacted_each
from collated_readers.values import Row, integer, optional_text, text

__all__ = [
    "COLUMNS",
    "FROM",
    "Definition",
    "Member",
    "check_symbols",
    "definition_of",
    "definitions_of",
    "member_of",
    "module_of",
    "named",
    "owned",
    "symbol_of",
    "symbols_from",
]

COLUMNS = """s.id, s.name, s.qualified, s.kind, f.path, s.line_start, s.line_end, f.sha256, s.signature,
f.lang, f.parser"""
FROM = "FROM symbols AS s JOIN files AS f ON f.id = s.file_id"

_NAMED = f"SELECT {COLUMNS} {FROM} WHERE s.name = ? ORDER BY f.path, s.line_start, s.id LIMIT ?"
_OWNED = f"""
SELECT {COLUMNS} {FROM} WHERE s.name = :name
AND (s.qualified = :member OR substr(s.qualified, -length(:member) - 1) = '.' || :member)
ORDER BY f.path, s.line_start, s.id LIMIT :most"""
_TOP_LEVEL = f"""
SELECT {COLUMNS} {FROM} WHERE s.name = ? AND (s.qualified = s.name OR s.qualified IS NULL)
ORDER BY f.path, s.line_start, s.id LIMIT ?"""
_MISSING = """
SELECT NOT EXISTS (SELECT 1 FROM symbols) AND EXISTS (SELECT 1 FROM files WHERE parser = 'treesitter')"""

_SEPARATORS = re.compile(r"\.|::|#")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_OF_FOLDER = frozenset({"__init__", "index", "mod"})
"""A file of such a stem defines the module that its folder is named after."""

_MOST = 10_000
"""So many definitions of one name are looked at."""


class Member(Struct, frozen=True):
    """A name written as `Owner.member`, `Owner::member` or `Owner#member`; its last two parts."""

    owner: str
    name: str


class Definition(Struct, frozen=True):
    """A symbol, with what its file is written in; `id` is good within one snapshot of the store only."""

    id: int
    name: str
    qualified: str | None
    kind: str
    path: str
    line_start: int
    line_end: int
    sha256: str
    signature: str | None
    language: str | None
    parser: str

    @property
    def title(self) -> str:
        """Return the qualified name, or the name where the store has no other."""
        return self.qualified or self.name


def check_symbols(db: sqlite3.Connection) -> None:
    """Return if the store knows the symbols of its program, or has no program's files.

    Raises:
        StoreError: `symbols_missing` (T5).
    """
    if db.execute(_MISSING).fetchone()[0]:
        raise StoreError(
            "symbols_missing",
            "the store was built without the grammars of its languages: it knows no symbols",
        )


def definition_of(row: Row) -> Definition:
    """Return the definition that *row* of COLUMNS describes.

    Raises:
        StoreError: `damaged`.
    """
    number, name, qualified, kind, path, start, end, sha256, signature, language, parser = row
    return Definition(
        id=integer(number),
        name=text(name),
        qualified=optional_text(qualified),
        kind=text(kind),
        path=text(path),
        line_start=integer(start),
        line_end=integer(end),
        sha256=text(sha256),
        signature=optional_text(signature),
        language=optional_text(language),
        parser=text(parser),
    )


def symbol_of(definition: Definition) -> Symbol:
    """Return *definition* as it is sent: without secrets and row id."""
    return symbols_from([definition])[0]


def symbols_from(definitions: Sequence[Definition]) -> tuple[Symbol, ...]:
    """Return *definitions* as they are sent: without secrets and row ids."""
    signatures = redacted_each([one.signature or "" for one in definitions])
    return tuple(
        Symbol(
            name=one.name,
            qualified=one.qualified,
            kind=one.kind,
            path=one.path,
            line_start=one.line_start,
            line_end=one.line_end,
            sha256=one.sha256,
            signature=None if one.signature is None else signature,
        )
        for one, signature in zip(definitions, signatures, strict=True)
    )


def named(db: sqlite3.Connection, name: str, limit: int = _MOST) -> list[Definition]:
    """Return the symbols called *name*, by (path, line)."""
    return [definition_of(row) for row in db.execute(_NAMED, (name, limit))]


def owned(db: sqlite3.Connection, member: Member) -> list[Definition]:
    """Return the members of types of that name; without any, what modules of that name define themselves."""
    asked = {"name": member.name, "member": f"{member.owner}.{member.name}", "most": _MOST}
    members = [definition_of(row) for row in db.execute(_OWNED, asked)]
    if members:
        return members
    candidates = (definition_of(row) for row in db.execute(_TOP_LEVEL, (member.name, _MOST)))
    return [one for one in candidates if module_of(one.path) == member.owner]


def definitions_of(db: sqlite3.Connection, target: str) -> tuple[list[Definition], Member | None]:
    """Return what *target* names, by (path, line), and its parts if it names a member only."""
    found = named(db, target)
    member = None if found else member_of(target)
    return (found, None) if member is None else (owned(db, member), member)


def member_of(target: str) -> Member | None:
    """Return *target* as `Owner.member`, None if it is not written so. Pure."""
    parts = _SEPARATORS.split(target.strip())
    *_, owner, name = ["", *parts]
    return Member(owner, name) if owner and all(map(_IDENTIFIER.fullmatch, parts)) else None


def module_of(path: str) -> str:
    """Return what a program calls the module that the file at *path* defines. Pure."""
    file = PurePosixPath(path)
    return file.parent.name if file.stem in _OF_FOLDER and file.parent.name else file.stem
