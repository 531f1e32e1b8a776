"""What is known of a context store once its files are read: tables, runs, snapshots, declarations, bounds.

Only values; nothing here reads a file or knows DuckDB. Sections named `layout` are those of
`formats/contextful/layout.md`. Instants are nanoseconds since 1970 in UTC, as the format writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from collated_readers.codes import RequestError

__all__ = [
    "INJECTED",
    "Bound",
    "Bounds",
    "Column",
    "ContextStore",
    "Declared",
    "FileList",
    "IndexEntry",
    "Limits",
    "Retention",
    "Run",
    "Snapshot",
    "Table",
    "Template",
    "ValidTime",
]

INJECTED: Mapping[str, str] = {
    "_ingested_at": "TIMESTAMPTZ",
    "_run_id": "VARCHAR",
    "_row_seq": "BIGINT",
    "_commit_seq": "BIGINT",
    "_site_id": "VARCHAR",
}
"""The columns that every table has after its own, with their DuckDB types (layout §5)."""


class Column(Struct, frozen=True):
    """A column of a table: *type* as DuckDB spells it; `is_text` is plain `utf8`, not JSON (layout §2.5)."""

    name: str
    type: str
    is_text: bool = False
    is_json: bool = False


class IndexEntry(Struct, frozen=True):
    """A sidecar that a snapshot's manifest names (layout §6); *path* is relative to the snapshot."""

    kind: Literal["fulltext", "vector"]
    path: str
    column: str
    id_column: str
    row_count: int
    tokenizer: str = ""  # of full text: `unicode`, `cjk`
    term_count: int = 0
    model: str = ""  # of vectors
    dim: int = 0
    manifest: Mapping[str, Any] = {}  # as it stands in the snapshot's manifest, to be compared


class Run(Struct, frozen=True):
    """A committed run of one node (layout §2.1); *parts* are names within its directory."""

    run_id: str
    node_id: str
    committed_at: int
    parts: tuple[str, ...] = ()
    commit_seq: int | None = None
    replace_frontier: bool = False

    @property
    def key(self) -> str:
        """Return `run/node`; the run's id alone names no run."""
        return f"{self.run_id}/{self.node_id}"


class Snapshot(Struct, frozen=True):
    """A fold (layout §2.4); *parts* may lie in partition directories, *publish* is verbatim."""

    snapshot_id: str
    parent: str | None
    created_at: int
    includes_runs: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()
    row_count: int = 0
    indexes: tuple[IndexEntry, ...] = ()
    commit_seq: int | None = None
    publish: Mapping[str, Any] | None = None


class ValidTime(Struct, frozen=True):
    """The columns between which a row is true; *until* None where it is until further notice."""

    since: str
    until: str | None = None


class Retention(Struct, frozen=True):
    """Rows whose *column* is older than *age_ns* are hidden from every read, by the wall clock."""

    column: str
    age_ns: int


class Limits(Struct, frozen=True):
    """The ceilings that a table declares (`policy.limits`)."""

    max_rows: int | None = None
    max_duration_ms: int | None = None
    max_response_bytes: int | None = None


class Declared(Struct, frozen=True):
    """A `[[pipeline.tables]]` block, as far as reads care (layout §3).

    *withheld* says why the table may not be served: a policy of rows or columns, a class, a visibility or
    a zone that this reader cannot evaluate. *available_time* is the column of when a row became known.
    *result_cache_ns* is how long rows of it may be given again, None where it does not say or is private.
    """

    name: str
    primary_key: tuple[str, ...] = ()
    order_by: str | None = None
    write_mode: Literal["append", "replace"] = "append"
    valid_time: ValidTime | None = None
    columns: tuple[Column, ...] = ()
    partition_by: tuple[str, ...] = ()
    retain_rows: Retention | None = None
    retain_versions: bool = False
    content_hash_column: str | None = None
    retrieve_text: tuple[str, ...] | None = None
    indexes: tuple[Mapping[str, Any], ...] = ()
    description: str | None = None
    hint: str | None = None
    column_hints: Mapping[str, str] = {}
    example_queries: tuple[str, ...] = ()
    limits: Limits = Limits()
    zone_allow: tuple[str, ...] | None = None
    withheld: str | None = None
    available_time: str | None = None
    result_cache_ns: int | None = None


class Template(Struct, frozen=True):
    """A `[[query_templates]]` entry: *parameters* are (name, type) in order (guard.md §4)."""

    id: str
    sql: str
    parameters: tuple[tuple[str, str], ...] = ()
    max_rows: int | None = None


class Table(Struct, frozen=True):
    """One table, on disk or only declared (`is_quiet`).

    *columns* are those of `schema.json`. *chain* is the pointer's snapshot and its ancestors, newest
    first; *is_cut* where an ancestor is gone. *fault* is what every read of this table raises, and only
    of this one. *ledger* are the files of its request ledger, relative to the store's root. *waiting* are
    the numbers (`commit_seq`) of runs that landed and may still be committed: their node's log has neither
    their entry nor a later `acquire` of the table; later runs are told to subscribers after them.
    """

    name: str
    declared: Declared
    columns: tuple[Column, ...] = ()
    runs: tuple[Run, ...] = ()
    chain: tuple[Snapshot, ...] = ()
    is_cut: bool = False
    is_quiet: bool = False
    ledger: tuple[str, ...] = ()
    fault: RequestError | None = None
    waiting: tuple[int, ...] = ()

    @property
    def folder(self) -> str:
        """Return the table's directory, relative to the store's root."""
        return f"tables/{self.name}"


class ContextStore(Struct, frozen=True):
    """A store of one project. *root* is the directory `.contextful/context/<project>`, absolute.

    *digest* changes with every commit, fold, landed schema, ledger or declaration, and with nothing else.
    *templates* that may not be served are not here; *withheld_templates* says why, by id.
    """

    root: str
    project: str
    digest: str
    tables: Mapping[str, Table]
    templates: tuple[Template, ...] = ()
    withheld_templates: Mapping[str, RequestError] = {}
    numeric_identifiers: Mapping[str, Any] = {}
    badges: Mapping[str, Any] = {}
    is_incognito: bool = False


class Bound(Struct, frozen=True):
    """An upper bound on a clock: up to and with *at* when *is_inclusive*, else before it (layout §4.9)."""

    at: int
    is_inclusive: bool = True


class Bounds(Struct, frozen=True):
    """The bounds of one read, and the builds it pins (*pin*: table to build id)."""

    as_of: Bound | None = None
    valid_as_of: Bound | None = None
    available_as_of: Bound | None = None
    pin: Mapping[str, str] = {}


class FileList(Struct, frozen=True):
    """The files of a table under bounds, sorted, relative to the store's root (layout §4)."""

    files: tuple[str, ...] = ()
    snapshot: Snapshot | None = None
    runs: tuple[Run, ...] = ()
