"""Is this a codebase-index store, and one that can be read? (formats/codebase-index.md §2, D6–D8)."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from collated_readers.contract import StoreError, StoreFacts
from collated_readers.declared import check_ordinary, declaration_of
from collated_readers.fts.support import check_fts5
from collated_readers.values import integer, optional_text, text

from .vectors import model_of

__all__ = ["VERSIONS", "facts_of", "has_column", "is_codebase_index", "meta_of"]

VERSIONS = "1 to 4"
_VERSIONS = frozenset({"1", "2", "3", "4"})
_LONGEST_DETAIL = 200  # characters; times, a hash, which are shown as they are

_TABLES = frozenset({"meta", "files", "chunks", "symbols", "edges", "fts_chunks"})
_COLUMNS: Mapping[str, frozenset[str]] = {
    "meta": frozenset({"key", "value"}),
    "files": frozenset({"id", "path", "lang", "size_bytes", "sha256", "mtime_ns", "parser"}),
    "chunks": frozenset({"id", "file_id", "line_start", "line_end", "kind", "symbol_id", "content"}),
    "symbols": frozenset(
        {"id", "file_id", "name", "qualified", "kind", "line_start", "line_end", "signature"}
    ),
    "edges": frozenset(
        {
            *("id", "edge_type", "src_kind", "src_id", "dst_kind", "dst_id", "dst_name"),
            *("file_id", "line", "resolved"),
        }
    ),
}

_FTS5 = re.compile(
    r"CREATE\s+VIRTUAL\s+TABLE\b[^(]*\bUSING\s+fts5\b.*\bcontent\s*=\s*'chunks'", re.IGNORECASE | re.DOTALL
)
_FTS_COLUMNS = ["content", "symbol_names", "path"]

_COUNTS = """
SELECT (SELECT count(*) FROM files), (SELECT count(*) FROM symbols),
(SELECT count(*) FROM chunks AS c JOIN files AS f ON f.id = c.file_id),
(SELECT count(*) FROM files WHERE parser = 'treesitter')"""
_LANGUAGES = "SELECT DISTINCT substr(lang, 1, 40) FROM files WHERE lang IS NOT NULL ORDER BY lang LIMIT 200"
# An edge is followed only to what still bears the name that it recorded (T2).
_DANGLING = """
SELECT count(*) FROM edges AS e
LEFT JOIN symbols AS s ON e.dst_kind = 'symbol' AND s.id = e.dst_id
LEFT JOIN files AS f ON e.dst_kind = 'file' AND f.id = e.dst_id
WHERE e.resolved = 1 AND CASE e.dst_kind
WHEN 'symbol' THEN s.name IS NOT e.dst_name WHEN 'file' THEN f.id IS NULL ELSE 0 END"""
_FILES = "SELECT path, sha256 FROM files ORDER BY path"


def is_codebase_index(tables: Mapping[str, str]) -> bool:
    """Tell whether the format's tables are there; the file has no mark of its own."""
    return tables.keys() >= _TABLES


def facts_of(db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
    """Check the store and return its facts.

    Raises:
        StoreError: `unsupported_version`, `wrong_schema`, `fts5_missing`, `index_incomplete`, `damaged`.
    """
    check_ordinary(db, tables, "meta", _COLUMNS["meta"])
    version = meta_of(db, "schema_version") or ""
    if version not in _VERSIONS:
        raise StoreError(
            "unsupported_version",
            f"the store has schema version {version!r:.40}; this reader supports {VERSIONS}",
        )
    for name, columns in _COLUMNS.items():
        check_ordinary(db, tables, name, columns)
    _check_fts(db)
    if meta_of(db, "built_at") is None:
        raise StoreError("index_incomplete", "the store's first build has not finished")
    files, symbols, chunks, parsed = map(integer, db.execute(_COUNTS).fetchone())
    model = model_of(db)
    return StoreFacts(
        schema_version=version,
        identity=_identity(db, (version, files, symbols, chunks, model)),
        documents=files,
        records=chunks,
        model=model,
        details={
            "built_at": _detail(db, "built_at"),
            "updated_at": _detail(db, "updated_at"),
            "head_commit": _detail(db, "head_commit"),
            "symbols": symbols,
            "symbols_missing": symbols == 0 and parsed > 0,
            "dangling_edges": integer(db.execute(_DANGLING).fetchone()[0]),
            "languages": [text(lang) for (lang,) in db.execute(_LANGUAGES)],
        },
    )


def meta_of(db: sqlite3.Connection, key: str) -> str | None:
    """Return one value of `meta`, None where the key is missing."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else optional_text(row[0])


def _detail(db: sqlite3.Connection, key: str) -> str | None:
    value = meta_of(db, key)
    return None if value is None else value[:_LONGEST_DETAIL]


def has_column(db: sqlite3.Connection, table: str, column: str) -> bool:
    """Tell whether *table* has an ordinary column of that name: versions differ in a few."""
    found = db.execute("SELECT hidden FROM pragma_table_xinfo(?) WHERE name = ?", (table, column)).fetchone()
    return bool(found == (0,))


def _check_fts(db: sqlite3.Connection) -> None:
    if not _FTS5.match(declaration_of(db, "fts_chunks")):
        raise StoreError("wrong_schema", "the store has no FTS5 table fts_chunks over its chunks")
    # Only with MATCH can it be asked: it names a column that `chunks` lacks (T1).
    check_fts5(db, "SELECT rowid FROM fts_chunks WHERE fts_chunks MATCH 'a' LIMIT 1")
    columns = [row[0] for row in db.execute("SELECT name FROM pragma_table_info('fts_chunks')")]
    if columns != _FTS_COLUMNS:
        raise StoreError("wrong_schema", f"the store's fts_chunks has other columns than {_FTS_COLUMNS}")


def _identity(db: sqlite3.Connection, facts: tuple[Any, ...]) -> str:
    keys = ("built_at", "updated_at", "head_commit", "config_hash", "graph_analysis")
    found = hashlib.sha256(json.dumps([*facts, *(meta_of(db, key) for key in keys)]).encode())
    with closing(db.execute(_FILES)) as rows:
        for path, sha256 in rows:
            found.update(f"{text(path)}\0{text(sha256)}\0".encode())
    return found.hexdigest()[:32]
