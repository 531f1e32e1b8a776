"""What goes wrong with one store or with one question, each with a stable code.

Part of the promises of `contract`, which everybody imports these from.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

__all__ = ["STORE_CODES", "RequestError", "State", "StoreError"]


class State(StrEnum):
    """What the daemon says of a store that was found; every found file has one (DESIGN §1)."""

    OPENING = "opening"
    OPEN = "open"
    BUILDING = "building"
    BUSY = "busy"
    REFUSED = "refused"
    UNREADABLE = "unreadable"


# code -> (state of a store that fails so when it is opened, what it means). Part of the API:
# a code is never reworded or reused. README repeats this table and a test holds it to that.
STORE_CODES: Mapping[str, tuple[State, str]] = {
    "opening": (State.OPENING, "the store was found and is being opened; ask again"),
    "not_a_file": (State.REFUSED, "a directory, FIFO, socket or device where a store file was expected"),
    "empty_file": (State.REFUSED, "a file of no bytes"),
    "not_sqlite": (State.REFUSED, "the file does not begin like a SQLite database"),
    "unknown_format": (State.REFUSED, "no reader recognises the file"),
    "unsupported_version": (State.REFUSED, "the store's schema version is not one that the reader supports"),
    "wrong_schema": (
        State.REFUSED,
        "a table or column that the format demands is missing or is not a real table",
    ),
    "fts5_missing": (State.REFUSED, "this Python's SQLite was built without FTS5"),
    "index_incomplete": (State.REFUSED, "the program that makes the store has not finished its first build"),
    "symbols_missing": (State.OPEN, "the store was made without symbols: nobody knows of any, or of none"),
    "indexing": (State.OPEN, "the store's texts are being indexed for the first time; ask again"),
    "sqlite_snapshot_incomplete": (
        State.REFUSED,
        "a vector store that is no clean snapshot: files beside it",
    ),
    "sqlite_snapshot_changed": (State.BUSY, "a vector store changed while it was read"),
    "not_a_database": (State.REFUSED, "a vector store that does not begin like a SQLite database"),
    "unknown_sqlite_schema": (State.REFUSED, "a vector store of a layout that no adapter knows"),
    "invalid_manifest": (State.REFUSED, "the manifest beside a vector store is wrong"),
    "invalid_text_encoding": (State.REFUSED, "a text of a vector store is no UTF-8"),
    "metadata_conflict": (State.REFUSED, "a vector store's metadata lack something or contradict"),
    "empty_store": (State.REFUSED, "a vector store without records"),
    "checksum_mismatch": (State.REFUSED, "a text of a vector store is not the one that was indexed"),
    "offset_length_mismatch": (State.REFUSED, "a record's offsets do not fit its text"),
    "offset_gap": (State.REFUSED, "text is missing between two records"),
    "reconstruction_mismatch": (State.REFUSED, "the records together are not the text they were cut from"),
    "invalid_vector": (State.OPEN, "a stored vector has a wrong length, or numbers that are not finite"),
    "normalization_mismatch": (State.REFUSED, "a stored vector is not of unit length"),
    "unsupported_embedding_format": (State.REFUSED, "vectors are stored in a way that is not supported"),
    "unsupported_metric": (State.REFUSED, "a metric other than dot, cosine and l2"),
    "unsupported_normalization": (State.REFUSED, "a normalization other than l2 and none"),
    "schema_mismatch": (State.REFUSED, "a table or column that the manifest names is not in the store"),
    "id_not_primary_key": (State.REFUSED, "the column of ids is not the declared primary key"),
    "virtual_table_unsupported": (State.REFUSED, "records in a virtual table, which needs an extension"),
    "invalid_source_metadata": (State.REFUSED, "a record's source is no JSON object"),
    "invalid_record_id": (State.REFUSED, "a record without an id"),
    "invalid_record_text": (State.REFUSED, "a record whose text is no text"),
    "memory_budget_exceeded": (State.OPEN, "a search of vectors needs more memory than it may take"),
    "engine_missing": (State.REFUSED, "a context store, and the extra `contextful` is not installed"),
    "engine_crashed": (State.OPEN, "the process that reads a context store ended within a question"),
    "engine_memory": (State.OPEN, "a question to a context store takes more memory than it may"),
    "context_encrypted": (State.REFUSED, "an encrypted context store, whose key nobody has here"),
    "declaration_unreadable": (State.REFUSED, "the declaration of a context store's project cannot be read"),
    "erasure_frontier": (State.REFUSED, "a context store with an erasure that cannot be verified here"),
    "building": (State.BUILDING, "the store is in the middle of its first ingest"),
    "locked": (State.BUSY, "another program holds the store locked"),
    "hot_journal": (State.BUSY, "a writer was interrupted or is at work: a journal lies beside the store"),
    "too_large_to_copy": (State.BUSY, "the store is being written and is larger than cache.copy_limit_bytes"),
    "keeps_changing": (State.BUSY, "the store changed each time it was read"),
    "disk_full": (State.BUSY, "no room for the private copy of a store that is being written"),
    "permission_denied": (State.UNREADABLE, "the file or a directory above it may not be read"),
    "unwritable_directory": (State.UNREADABLE, "SQLite wants to write beside the store and cannot"),
    "too_many_open_files": (State.UNREADABLE, "the process is out of file descriptors"),
    "broken_symlink": (State.UNREADABLE, "a symlink that leads nowhere or in a circle"),
    "vanished": (State.UNREADABLE, "the file was there and is gone"),
    "damaged": (State.UNREADABLE, "SQLite or the reader found the contents broken"),
    "io_error": (State.UNREADABLE, "the operating system could not read the file"),
    "invalid_rank": (State.OPEN, "the store gave a rank that is not a finite number"),
    "deadline_exceeded": (State.OPEN, "the store did not answer in time"),
    "backed_off": (State.OPEN, "the store kept failing and is left alone for a while"),
    "internal": (State.UNREADABLE, "a fault of collated itself; the log has the traceback"),
}


class StoreError(Exception):
    """One store failed; the others go on. `code` is a key of `STORE_CODES`."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the stable *code* and the *message* that says what to do."""
        super().__init__(message)
        self.code = code
        self.message = message


class RequestError(Exception):
    """The request is at fault: `unknown_id`, `pattern_rejected`, `invalid_params` or `unsupported`."""

    def __init__(self, code: str, message: str, suggestion: str | None = None) -> None:
        """Keep the stable *code* of DESIGN §6, the *message* and what to try instead."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.suggestion = suggestion
