"""Reading a store: its tables and what is declared of them, as one state (layout §1 to §4)."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Mapping, Set
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from collated_readers.codes import StoreError
from collated_readers.opening.failure import from_os

from .declarations import Declarations, load_declarations
from .folders import Folder, Unusable
from .logs import CommitLogs
from .manifests import unreadable
from .model import ContextStore, Declared, Table
from .schemas import quiet_columns
from .stamp import project_of, stamp_of
from .tables import tables_in

__all__ = ["load_store"]

_ATTEMPTS = 5
_LARGEST_CONFIG = 1024 * 1024


def load_store(root: Path) -> ContextStore:
    """Return the store at *root* in one state. What is wrong with a single table is that table's fault.

    Raises:
        StoreError: `context_encrypted`, `erasure_frontier`, `declaration_unreadable`, `keeps_changing`,
            and what the system says of its directory.
    """
    path = os.fspath(root)
    digest = stamp_of(path).digest
    for _ in range(_ATTEMPTS):
        store = _load(path, digest)
        after = stamp_of(path).digest
        if after == digest:
            return store
        digest = after
    raise StoreError("keeps_changing", "the store changed each time it was read")


def _load(root: str, digest: str) -> ContextStore:
    directory, project = project_of(root)
    try:
        with Folder.at(root) as folder:
            _check_readable(folder)
            declared = load_declarations(directory) if directory is not None else Declarations()
            tables = _tables(folder, declared.tables)
    except OSError as error:
        raise from_os(error) from error
    except Unusable as error:
        raise StoreError("damaged", f"the store cannot be read: {error}") from error
    return ContextStore(
        root=root,
        project=project,
        digest=digest,
        tables=tables,
        templates=declared.templates,
        withheld_templates=declared.withheld_templates,
        numeric_identifiers=declared.numeric_identifiers,
        badges=declared.badges,
        is_incognito=declared.is_incognito,
    )


def _check_readable(folder: Folder) -> None:
    """Refuse a store of which any row might be one that nobody may read."""
    if folder.holds("_erasure_frontier.json"):
        message = "rows of it were erased, and which ones cannot be verified here; nothing of it is served"
        raise StoreError("erasure_frontier", message)
    try:
        config = tomllib.loads((folder.read("config.toml", _LARGEST_CONFIG) or b"").decode())
    except (ValueError, RecursionError, Unusable) as error:
        raise StoreError("damaged", f"config.toml cannot be used: {error!s:.200}") from error
    if "encryption" in config:
        raise StoreError("context_encrypted", "the store is encrypted, and its key is not to be had here")


def _tables(folder: Folder, declared: Mapping[str, Declared]) -> dict[str, Table]:
    found: dict[str, Table] = {}
    with ExitStack() as stack:
        logs = CommitLogs(stack.enter_context(folder.folder("cursors")))
        tables = stack.enter_context(folder.folder("tables"))
        if tables is not None:
            found = {table.name: table for table in tables_in(tables, declared, logs)}
    for name, block in declared.items():
        if name not in found:
            found[name] = Table(name, block, columns=quiet_columns(block.columns), is_quiet=True)
    clashing = {name for name, count in Counter(name.lower() for name in found).items() if count > 1}
    return {name: _told_apart(found[name], clashing) for name in sorted(found)}


def _told_apart(table: Table, clashing: Set[str]) -> Table:
    """Put at fault what the engine, which does not look at case, would take for another table."""
    if table.name.lower() not in clashing:
        return table
    return replace(table, fault=unreadable(table.name, "another table is named alike but for case"))
