"""What a person can do about a store that does not answer, by the code of `STORE_CODES`."""

from collections.abc import Mapping

__all__ = ["ADVICE", "advice"]

_MAKE_AGAIN = "make the store again with the program that it belongs to"

ADVICE: Mapping[str, str] = {
    "opening": "ask again in a moment",
    "not_a_file": "point the watch pattern or the link at a store file",
    "empty_file": "run the program that makes the store again, or delete the file",
    "not_sqlite": "narrow the `match` patterns of this [[watch]] entry, or remove the file",
    "unknown_format": "narrow the `match` patterns of this [[watch]] entry, or remove the file",
    "unsupported_version": "upgrade collated, or make the store again with a version that it supports",
    "wrong_schema": _MAKE_AGAIN,
    "fts5_missing": "run collated with a Python whose SQLite has FTS5",
    "index_incomplete": "run the program that makes the store again, and let it finish",
    "symbols_missing": "index the project again where the program finds its grammars; `search` needs none",
    "indexing": "ask again in a moment",
    "sqlite_snapshot_incomplete": "close the program that has it open, or add a finished copy of the store",
    "sqlite_snapshot_changed": "wait until the writer is done",
    "not_a_database": "narrow the `match` patterns of this [[watch]] entry, or remove the file",
    "unknown_sqlite_schema": "put a manifest NAME.manifest.json beside it that says which table to read",
    "invalid_manifest": "correct the manifest beside the store",
    "invalid_text_encoding": _MAKE_AGAIN,
    "metadata_conflict": _MAKE_AGAIN,
    "empty_store": _MAKE_AGAIN,
    "checksum_mismatch": _MAKE_AGAIN,
    "offset_length_mismatch": _MAKE_AGAIN,
    "offset_gap": _MAKE_AGAIN,
    "reconstruction_mismatch": _MAKE_AGAIN,
    "invalid_vector": _MAKE_AGAIN,
    "normalization_mismatch": "make the store again, or declare its vectors as they are",
    "unsupported_embedding_format": "make the store again with vectors as JSON, float32 or float64",
    "unsupported_metric": "declare one of dot, cosine and l2",
    "unsupported_normalization": "declare one of l2 and none",
    "schema_mismatch": "correct the names in the manifest beside the store",
    "id_not_primary_key": "make the store again with the ids as its primary key",
    "virtual_table_unsupported": "make the store again with its records in an ordinary table",
    "invalid_source_metadata": _MAKE_AGAIN,
    "invalid_record_id": _MAKE_AGAIN,
    "invalid_record_text": _MAKE_AGAIN,
    "memory_budget_exceeded": "ask for fewer hits with --limit",
    "engine_missing": "install collated[contextful] where the daemon runs, then start it again",
    "engine_crashed": "ask again; if it happens again, report the statement",
    "engine_memory": "ask for fewer rows or columns, or group by fewer values",
    "context_encrypted": "read it with the program that it belongs to, which has the key",
    "erasure_frontier": "read it with the program that it belongs to, which can verify what was erased",
    "declaration_unreadable": "correct contextful.toml and the files of its pipelines",
    "building": "wait until its first ingest is done",
    "locked": "wait until the other program lets go of it, or end that program",
    "hot_journal": "wait for the writer; if none runs, open the store once with its own program",
    "too_large_to_copy": "wait until the writer is done, or raise cache.copy_limit_bytes",
    "keeps_changing": "wait until the writer is done",
    "disk_full": "free some space in the cache directory",
    "permission_denied": "give your user the right to read the file and to enter the directories above it",
    "unwritable_directory": "have the store's program finish its writing, so that nothing is left beside it",
    "too_many_open_files": "raise LimitNOFILE or `ulimit -n`, or lower search.max_open_stores",
    "broken_symlink": "remove it with `collate remove NAME` and add the store's new path",
    "vanished": "make the store again, or remove it with `collate remove NAME`",
    "damaged": "delete the store and make it again with the program that it belongs to",
    "io_error": "check the disk, the mount and the system's log",
    "invalid_rank": "make the store again; if it stays so, report it",
    "deadline_exceeded": "try again, or allow more time with --deadline-ms",
    "backed_off": "it is tried again soon by itself; `collate stores` shows what it failed with",
    "internal": "look into the daemon's log and report it",
}


# Not of a store that fails, but of one that a query's vector is not for.
_OF_A_QUERY: Mapping[str, str] = {
    "invalid_query_vector": "embed the query with the store's model, or ask other stores",
    "query_model_mismatch": "embed the query with the store's model, or ask other stores",
}


def advice(code: str) -> str:
    """Return what to do about *code*; codes of a newer daemon get a general answer."""
    return ADVICE.get(code) or _OF_A_QUERY.get(code, "see `collate stores` and `collate doctor`")
