"""What a person can do about a store that does not answer, by the code of `STORE_CODES`."""

from collections.abc import Mapping

__all__ = ["ADVICE", "advice"]

ADVICE: Mapping[str, str] = {
    "opening": "ask again in a moment",
    "not_a_file": "point the watch pattern or the link at a store file",
    "empty_file": "run the program that makes the store again, or delete the file",
    "not_sqlite": "narrow the `match` patterns of this [[watch]] entry, or remove the file",
    "unknown_format": "narrow the `match` patterns of this [[watch]] entry, or remove the file",
    "unsupported_version": "upgrade collated, or make the store again with a version that it supports",
    "wrong_schema": "make the store again with the program that it belongs to",
    "fts5_missing": "run collated with a Python whose SQLite has FTS5",
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


def advice(code: str) -> str:
    """Return what to do about *code*; codes of a newer daemon get a general answer."""
    return ADVICE.get(code, "see `collate stores` and `collate doctor`")
