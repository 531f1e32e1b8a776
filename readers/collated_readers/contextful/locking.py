"""The engine of one session: in memory, without network, locked to the parts that it may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb

from .refusals import refused
from .scanning import allowed

__all__ = ["locked_engine"]

_CONFIG: Mapping[str, str] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "allow_persistent_secrets": "false",
    "allow_community_extensions": "false",
}


def locked_engine(paths: Sequence[str], *, memory_bytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """Return an engine that opens *paths* and nothing else, whose settings nobody changes (guard.md §5).

    The lock is a second wall: it leaves the parts themselves to be read past their relations, and to be
    written. The first is the guard, the third the worker's own process.

    Raises:
        RequestError: `engine_error`, for paths that are no text.
    """
    engine = duckdb.connect(":memory:", config={**_CONFIG})
    try:
        engine.execute("SET GLOBAL TimeZone = 'UTC'")  # cursors have settings of their own
        engine.execute("SET temp_directory = ''")
        engine.execute(f"SET memory_limit = '{memory_bytes}B'")
        engine.execute(f"SET threads = {threads}")
        engine.execute("SET parquet_metadata_cache = true")
        engine.execute("SET allowed_paths = $1", [allowed(paths)])
        engine.execute("SET enable_external_access = false")
        engine.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        engine.close()
        raise refused("engine_error", "the engine takes no such path as the store has") from error
    return engine
