"""Where a name is called, referred to and defined."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from collated_readers.code import Coverage, Reference, ReferenceKind, References
from collated_readers.secrets import redacted_each
from collated_readers.values import Row, integer, optional_text, text

from .coverage import coverage_of, family_of, unmatched
from .definitions import Definition, Member, check_symbols, definitions_of, named
from .schema import has_column

__all__ = ["references_of"]

_MOST_EDGES = 50_000
"""So many edges to one name are looked at, the oldest first."""

# A target counts only if it bears the name that the edge recorded (T2); `is_lost`: it had one that does not.
_SITES = """
SELECT f.path, e.line, e.edge_type, {confidence}, {receiver}, f.sha256, f.lang, f.parser,
t.id, t.name, t.qualified, e.dst_kind = 'symbol' AND e.dst_id IS NOT NULL AND t.id IS NULL AS is_lost,
s.name, s.qualified
FROM (SELECT * FROM edges
WHERE dst_name = :name AND (+edge_type = 'call' OR :has_all AND +edge_type = 'reference')
ORDER BY id LIMIT :most) AS e
JOIN files AS f ON f.id = e.file_id
LEFT JOIN symbols AS t ON e.dst_kind = 'symbol' AND t.id = e.dst_id AND t.name = e.dst_name
LEFT JOIN symbols AS s ON e.src_kind = 'symbol' AND s.id = e.src_id
WHERE :path IS NULL OR f.path = :path OR substr(f.path, 1, length(:path) + 1) = :path || '/'
ORDER BY f.path, e.line, e.edge_type, e.id LIMIT :limit"""


class _Site(Struct, frozen=True):
    """A place where a name is used, the row id of what is meant, and what its file is written in."""

    reference: Reference
    target: int | None
    language: str | None
    parser: str


def references_of(
    db: sqlite3.Connection, name: str, kind: ReferenceKind, path: str | None, limit: int
) -> References:
    """Return the first *limit* places of *name*, by (path, line, kind), in *path* or below it only.

    Of `Owner.member` the calls that may mean it or not, because nobody knows the type of what they are made
    on, come last: nearest to a definition first, by (folders shared, path, line).

    Raises:
        StoreError: `symbols_missing`, `damaged`.
    """
    check_symbols(db)
    definitions, member = definitions_of(db, name)
    sites: list[_Site] = []
    possible: list[_Site] = []
    is_capped = False
    if kind != "definitions" and member is None:
        sites = _sites(db, name, kind, path, limit + 1)
    elif kind != "definitions" and member is not None:
        among = _sites(db, member.name, kind, path, _MOST_EDGES)
        is_capped = len(among) == _MOST_EDGES
        sites, possible = _sorted_out(among, member, definitions)
    known = [site.reference for site in sites]
    if kind != "callers":
        known += [_defined(one) for one in definitions if path is None or _is_in(one.path, path)]
    known.sort(key=lambda one: (one.path, one.line, one.kind))
    found = known + [replace(site.reference, kind="possible_call") for site in possible]
    return References(
        tuple(_as_sent(found[:limit])),
        _coverage(name, definitions, sites, possible),
        is_truncated=is_capped or len(found) > limit,
    )


def _as_sent(found: Sequence[Reference]) -> Iterator[Reference]:
    """Yield *found* without secrets: what a name is called on may be any expression."""
    names = [[one.target or "", one.receiver or "", one.caller or ""] for one in found]
    shown = iter(redacted_each(list(chain.from_iterable(names))))
    for one, (target, receiver, caller) in zip(found, zip(shown, shown, shown, strict=True), strict=True):
        yield replace(one, target=target or None, receiver=receiver or None, caller=caller or None)


def _sites(
    db: sqlite3.Connection, name: str, kind: ReferenceKind, path: str | None, limit: int
) -> list[_Site]:
    sql = _SITES.format(
        confidence="e.confidence" if has_column(db, "edges", "confidence") else "NULL",
        receiver="e.dst_qualifier" if has_column(db, "edges", "dst_qualifier") else "NULL",
    )
    asked = {"name": name, "has_all": kind == "all", "path": path, "most": _MOST_EDGES, "limit": limit}
    namesakes = named(db, name, 2)
    with closing(db.execute(sql, asked)) as rows:
        return [_site(row, namesakes) for row in rows]


def _site(row: Row, namesakes: Sequence[Definition]) -> _Site:
    path, line, kind, confidence, receiver, sha256, language, parser = row[:8]
    number, name, qualified, is_lost, caller, qualified_caller = row[8:]
    target = None if number is None else optional_text(qualified) or text(name)
    if is_lost and len(namesakes) == 1:
        number, target, confidence = namesakes[0].id, namesakes[0].title, "inferred"
    elif is_lost:
        confidence = "ambiguous"
    reference = Reference(
        path=text(path),
        line=integer(line),
        kind=text(kind),
        confidence=optional_text(confidence),
        target=target,
        receiver=optional_text(receiver),
        caller=optional_text(qualified_caller) or optional_text(caller),
        sha256=text(sha256),
    )
    return _Site(reference, number, optional_text(language), text(parser))


def _defined(definition: Definition) -> Reference:
    return Reference(
        path=definition.path,
        line=definition.line_start,
        kind="definition",
        confidence="extracted",  # it is the symbol itself
        target=definition.title,
        receiver=None,
        caller=None,
        sha256=definition.sha256,
    )


def _sorted_out(
    sites: Iterable[_Site], member: Member, definitions: Sequence[Definition]
) -> tuple[list[_Site], list[_Site]]:
    """Return the sites that mean the *member*, and the calls that may mean it, nearest first. Pure."""
    meant = {one.id for one in definitions}
    families = {family_of(one.language) for one in definitions}
    sure: list[_Site] = []
    possible: list[_Site] = []
    for site in sites:
        receiver = site.reference.receiver
        if site.target in meant or (site.target is None and receiver == member.owner):
            sure.append(site)
        elif _is_open_call(site) and family_of(site.language) in families:
            possible.append(site)
    folders = {folder for one in definitions for folder in PurePosixPath(one.path).parents}
    possible.sort(key=lambda site: -_depth_shared(site.reference.path, folders))
    return sure, possible


def _is_open_call(site: _Site) -> bool:
    """Tell whether a call may mean anything of its name: it has no target, nor a type that it is made on."""
    return site.target is None and site.reference.kind == "call" and not _names_type(site.reference.receiver)


def _names_type(receiver: str | None) -> bool:
    """Tell whether *receiver* reads like the name of a type: neither variable, constant nor `Self`."""
    return receiver is not None and receiver[:1].isupper() and receiver != "Self" and not receiver.isupper()


def _depth_shared(path: str, folders: set[PurePosixPath]) -> int:
    """Return how many folders down from the root *path* goes along with any of *folders*."""
    shared = (folder for folder in PurePosixPath(path).parents if folder in folders)
    return len(next(shared, PurePosixPath()).parts)


def _is_in(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


def _coverage(
    name: str, definitions: Sequence[Definition], sites: Sequence[_Site], possible: Sequence[_Site]
) -> Coverage:
    about = definitions or sites or possible
    if not about:
        return unmatched(name)
    coverage = coverage_of((one.language, one.parser) for one in about)
    if not possible:
        return coverage
    reason = (
        f"{len(possible)} calls are made on something of a type nobody knows: each may mean {name!r} or not"
    )
    return Coverage(True, coverage.languages, reason)
