"""What the daemon knows of every store, and what to do about a new listing (DESIGN §4). Pure."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from collated_readers import State, StoreError, StoreFacts
from collated_readers.contract import PROJECT_FOLDERS, STORE_CODES
from collated_readers.opening import Signature

from .protocol import Changes, Reason, StoreStatus
from .settings import NAME_CHARACTERS

__all__ = [
    "Found",
    "Pending",
    "Plan",
    "Store",
    "assign_names",
    "changes",
    "fingerprint",
    "opened",
    "plan",
    "project_root",
    "retry_delay_s",
    "settle",
    "shown",
    "status_of",
    "without",
]


class Found(Struct, frozen=True):
    """A file that a pattern matched: real path, the name it asks for, signature or why there is none."""

    path: str
    wanted: str | None
    signature: Signature | None
    reason: Reason | None = None


class Store(Struct, frozen=True):
    """One store in the catalog. `path` may hold surrogates, as `os.fsdecode` makes them.

    `term_filter` is what `filters.make_filter` made of its terms; None where it may always match.
    """

    path: str
    name: str
    signature: Signature | None
    state: State = State.OPENING
    reason: Reason | None = Reason("opening", "the store was found and is being opened; ask again")
    format: str | None = None
    schema_version: str | None = None
    fingerprint: str | None = None
    documents: int | None = None
    records: int | None = None
    model: str | None = None
    term_filter: bytes | None = None
    details: Mapping[str, Any] = {}


class Plan(Struct, frozen=True):
    """Paths to open (new or changed) and to forget (gone), each sorted."""

    open: tuple[str, ...]
    close: tuple[str, ...]


class Pending(Struct, frozen=True):
    """A changed store that is waiting for its writer to rest; times in seconds of one clock."""

    signature: Signature | None
    since: float
    last: float


def plan(known: Mapping[str, Signature | None], listing: Mapping[str, Signature | None]) -> Plan:
    """Return what to open and what to forget so that *known* becomes *listing*.

    Both map a path to the signature of its bytes; None in *known* is a store that was never opened.
    """
    changed = (path for path, signature in listing.items() if signature and known.get(path) != signature)
    return Plan(tuple(sorted(changed)), tuple(sorted(known.keys() - listing.keys())))


def settle(
    pending: Mapping[str, Pending],
    changed: Mapping[str, Signature | None],
    now: float,
    *,
    quiet_s: float,
    limit_s: float,
) -> tuple[tuple[str, ...], dict[str, Pending]]:
    """Return the paths whose writer has rested, sorted, and what is still pending.

    A path is due after *quiet_s* without a change, or *limit_s* after its first change: each store
    waits for its own writer only. Paths that are no longer in *changed* are dropped.
    """
    due: list[str] = []
    waiting: dict[str, Pending] = {}
    for path, signature in changed.items():
        before = pending.get(path)
        since = before.since if before else now
        last = before.last if before and before.signature == signature else now
        if now - last >= quiet_s or now - since >= limit_s:
            due.append(path)
        else:
            waiting[path] = Pending(signature, since, last)
    return tuple(sorted(due)), waiting


def retry_delay_s(attempts: int) -> float:
    """Return how long to wait before a store that cannot be read is tried again: 0.25 s doubling to 30 s."""
    return min(30.0, 0.25 * float(2 ** min(attempts, 10)))


def fingerprint(format_name: str, facts: StoreFacts, signature: Signature) -> str:
    """Return the identity of a store's contents as its reader sees them, 32 hex digits (DESIGN §3).

    Covers format, schema version, the reader's own identity and the signature of the bytes: the
    contract's `corpus_fingerprint` ignores options, index text and embeddings.
    """
    parts = (format_name, facts.schema_version, facts.identity, signature)
    return hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=16).hexdigest()


def opened(
    store: Store,
    format_name: str,
    facts: StoreFacts,
    signature: Signature,
    *,
    term_filter: bytes | None = None,
) -> Store:
    """Return *store* as open."""
    return msgspec.structs.replace(
        store,
        signature=signature,
        state=State.OPEN,
        reason=None,
        format=format_name,
        schema_version=facts.schema_version,
        fingerprint=fingerprint(format_name, facts, signature),
        documents=facts.documents,
        records=facts.records,
        model=facts.model,
        term_filter=term_filter,
        details=facts.details,
    )


def without(store: Store, error: StoreError, signature: Signature | None) -> Store:
    """Return *store* as not open, with the state that the error's code stands for (`STORE_CODES`)."""
    state = STORE_CODES.get(error.code, STORE_CODES["internal"])[0]
    return Store(
        path=store.path,
        name=store.name,
        signature=signature,
        state=State.UNREADABLE if state is State.OPEN else state,
        reason=Reason(error.code, shown(error.message)),
    )


# --------------------------------------------------------------------------- names

_DIGESTS = 8  # of 8, 16, 24 … digits


def shown(path: str) -> str:
    """Return *path* as text that any encoder takes: undecodable bytes appear in hex."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def project_root(path: str) -> str | None:
    """Return the project directory of a store that lies in a format's own folder, else None."""
    root, _ = _project(path)
    return root


def _project(path: str) -> tuple[str | None, str]:
    """Return the project directory and the word for what the store holds, None and nothing without one."""
    parents = list(Path(path).parent.parts)
    for name, word in PROJECT_FOLDERS.items():
        folder = name.split("/")
        if parents[-len(folder) :] == folder and len(parents) > len(folder):
            return str(Path(*parents[: -len(folder)])), word
    return None, ""


def assign_names(found: Iterable[Found], pinned: Mapping[str, str]) -> dict[str, str]:
    """Return a unique name in `[a-z0-9._-]` for each path, whatever the order of *found* (DESIGN §4).

    A name is pinned (*pinned* maps path to name), asked for by a symlink, or made of the project
    directory's name or the file's stem. Stores of several formats in one project all bear the word for
    theirs, `uv-docs` and `uv-code`. Names that collide are all lengthened by their path's next directory
    until they differ.
    """
    wanted = {each.path: each.wanted for each in found}
    names = _unique({path: pinned[path] for path in wanted if path in pinned})
    asked = {path: name for path, name in wanted.items() if name and path not in names}
    taken = frozenset(names.values())
    names |= {path: name for path, name in _unique(asked).items() if name not in taken}
    fixed = frozenset(names.values())
    words: dict[str | None, set[str]] = {}
    for root, word in map(_project, wanted):
        words.setdefault(root, set()).add(word)
    shared = {root for root, each in words.items() if len(each) > 1}
    rest = {path: _components(path, name, shared) for path, name in wanted.items() if path not in names}
    depth = dict.fromkeys(rest, 1)
    while clashing := _clashing(rest, depth, fixed):
        for path in clashing:
            depth[path] += 1
    return names | {path: _name(path, rest[path], depth[path]) for path in rest}


def _unique(asked: Mapping[str, str]) -> dict[str, str]:
    counts = Counter(asked.values())
    return {path: name for path, name in asked.items() if counts[name] == 1}


def _clashing(
    rest: Mapping[str, tuple[str, ...]], depth: Mapping[str, int], fixed: frozenset[str]
) -> list[str]:
    holders: dict[str, list[str]] = {}
    for path, parts in rest.items():
        holders.setdefault(_name(path, parts, depth[path]), []).append(path)
    clashing = (paths for name, paths in holders.items() if len(paths) > 1 or name in fixed)
    # Beyond its components a name carries a digest of the path, at last one that cannot clash.
    return [path for paths in clashing for path in paths if depth[path] < len(rest[path]) + _DIGESTS]


def _name(path: str, parts: tuple[str, ...], depth: int) -> str:
    name = "-".join(reversed(parts[:depth]))
    if depth <= len(parts):
        return name
    digest = hashlib.blake2b(os.fsencode(path)).hexdigest()
    return f"{name}-{digest[: 8 * (depth - len(parts))]}"


def _components(path: str, wanted: str | None, shared: Set[str | None]) -> tuple[str, ...]:
    """Return what a name can be made of, the most telling first; *shared* projects have several stores."""
    root, word = _project(path)
    parts = list(Path(root).parts) if root else [*Path(path).parent.parts, Path(path).stem]
    parts = [part for part in parts if part != os.sep]
    if root in shared and parts:
        parts[-1] += f"-{word}"
    if wanted:
        parts.append(wanted)
    return tuple(_plain(part) for part in reversed(parts)) or ("store",)


def _plain(part: str) -> str:
    kept = "".join(c if c in NAME_CHARACTERS else "-" for c in part.lower())
    return kept.strip("-.") or "store"


# --------------------------------------------------------------------------- for the wire


def status_of(store: Store, capabilities: Iterable[str], details: Mapping[str, Any]) -> StoreStatus:
    """Return *store* as the wire shows it, with the *details* that are known."""
    root = project_root(store.path)
    return StoreStatus(
        name=store.name,
        path=shown(store.path),
        root=shown(root) if root else None,
        format=store.format,
        schema_version=store.schema_version,
        state=store.state.value,
        reason=store.reason,
        fingerprint=store.fingerprint,
        documents=store.documents,
        records=store.records,
        bytes=store.signature.size + store.signature.wal_size if store.signature else None,
        capabilities=sorted(capabilities),
        details=dict(details),
    )


def changes(before: Mapping[str, Store], after: Mapping[str, Store]) -> Changes:
    """Return the names that came, changed and went between two catalogs keyed by path."""
    old = {store.name: store for store in before.values()}
    new = {store.name: store for store in after.values()}
    return Changes(
        added=sorted(new.keys() - old.keys()),
        changed=sorted(name for name in new.keys() & old.keys() if new[name] != old[name]),
        removed=sorted(old.keys() - new.keys()),
    )
