"""Is this a ContextPull store, and one that can be read? (store-format: Opening; DESIGN §3.5)."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Mapping

from collated_readers.contract import StoreError, StoreFacts
from collated_readers.declared import check_ordinary, declaration_of
from collated_readers.fts.support import check_fts5
from collated_readers.values import integer

from .contents import meta_of
from .hybrid import model_of

__all__ = ["VERSIONS", "facts_of", "is_contextpull"]

VERSIONS = "1.x"
_MAJOR = "1"
_LONGEST_DETAIL = 200

_COLUMNS: Mapping[str, frozenset[str]] = {
    "meta": frozenset({"key", "value"}),
    "documents": frozenset({"doc_id", "path", "title", "summary", "n_sections"}),
    "sections": frozenset({"id", "doc_id", "ordinal", "heading_path", "kind", "text", "prev_id", "next_id"}),
    "embeddings": frozenset({"section_id", "model", "vec"}),
}
_OPTIONAL = frozenset({"embeddings"})
_FTS_COLUMNS = ["id", "heading_path", "text"]
_OTHERS = frozenset({"symbols", "chunks", "fts_chunks"})  # codebase-index keeps its version in `meta` too

_FTS5 = re.compile(
    r"CREATE\s+VIRTUAL\s+TABLE\b[^(]*\bUSING\s+fts5\b(?!.*\bcontent\s*=)", re.IGNORECASE | re.DOTALL
)
_META_IN_SHAPE = "SELECT count(*) FROM pragma_table_info('meta') WHERE name IN ('key', 'value')"


def is_contextpull(db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
    """Tell whether `meta` names a schema version and the other tables are not another format's."""
    if "meta" not in tables or tables.keys() >= _OTHERS:
        return False
    if tables["meta"] != "table":  # not to be read: an endless view would be
        return tables.keys() >= {"documents", "sections", "sections_fts"}
    if db.execute(_META_IN_SHAPE).fetchone()[0] != 2:  # noqa: PLR2004 - the two columns just named
        return False
    return db.execute("SELECT 1 FROM meta WHERE key = 'schema_version'").fetchone() is not None


def facts_of(db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
    """Check the store and return its facts.

    Raises:
        StoreError: `unsupported_version`, `wrong_schema`, `fts5_missing`, `building`, `damaged`.
    """
    check_ordinary(db, tables, "meta", _COLUMNS["meta"])
    version = meta_of(db, "schema_version") or ""
    if version.split(".", 1)[0] != _MAJOR:
        raise StoreError(
            "unsupported_version",
            f"the store has schema version {version!r:.40}; this reader supports {VERSIONS}",
        )
    for name in _COLUMNS.keys() - _OPTIONAL | (_OPTIONAL & tables.keys()):
        check_ordinary(db, tables, name, _COLUMNS[name])
    _check_fts(db)
    if meta_of(db, "corpus_fingerprint") is None:
        raise StoreError("building", "the store is in the middle of its first ingest")
    documents, sections = db.execute(
        "SELECT count(*), coalesce(sum(n_sections), 0) FROM documents"
    ).fetchone()
    return StoreFacts(
        schema_version=version,
        identity=_identity(db, version),
        documents=integer(documents),
        records=integer(sections),
        model=model_of(db),
        details=_details(db),
    )


def _details(db: sqlite3.Connection) -> dict[str, str]:
    ingested_at = meta_of(db, "ingested_at")
    return {} if ingested_at is None else {"ingested_at": ingested_at[:_LONGEST_DETAIL]}


def _check_fts(db: sqlite3.Connection) -> None:
    if not _FTS5.match(declaration_of(db, "sections_fts")):
        raise StoreError(
            "wrong_schema", "the store has no FTS5 table sections_fts, or not one with its own content"
        )
    check_fts5(db, "SELECT rowid FROM sections_fts LIMIT 1")
    columns = [row[0] for row in db.execute("SELECT name FROM pragma_table_info('sections_fts')")]
    if columns != _FTS_COLUMNS:
        raise StoreError(
            "wrong_schema", "the store's sections_fts does not have the columns id, heading_path, text"
        )


def _identity(db: sqlite3.Connection, version: str) -> str:
    # corpus_fingerprint covers the source files alone, not how they were cut, indexed or embedded.
    keys = ("corpus_fingerprint", "ingested_at", "section_max_chars", "embed_model", "index_text")
    parts = [version, *(meta_of(db, key) for key in keys), model_of(db)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
