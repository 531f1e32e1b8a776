"""What files hold before anything is made of them: one SELECT of exactly these, and its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import duckdb

from .relations import literal, scan

__all__ = ["allowed", "described", "scanned"]


def scanned(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """Return the SELECT of the files at *paths*, None without any, and the types of its columns."""
    if not paths:
        return None, {}
    patterns = [_pattern(path) for path in paths]
    sql = scan(patterns, is_uniform=len(paths) == 1 or _is_uniform(cursor, patterns))
    return sql, described(cursor, sql)


def described(cursor: duckdb.DuckDBPyConnection, sql: str) -> dict[str, str]:
    """Return the columns of a SELECT with their types."""
    return {name: spelled for name, spelled, *_ in cursor.execute(f"DESCRIBE {sql}").fetchall()}


def allowed(paths: Sequence[str]) -> list[str]:
    """Return the list that an engine may open when it reads *paths*.

    A path with a bracket or star is looked for as the pattern that finds it, and then opened as it is.
    """
    return list(dict.fromkeys([*paths, *map(_pattern, paths)]))


def _pattern(path: str) -> str:
    """Return *path* so that the engine, which takes it for a pattern, finds that file and no other."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def _is_uniform(cursor: duckdb.DuckDBPyConnection, patterns: Sequence[str]) -> bool:
    """Return whether files have the same columns, in one order and of the same types."""
    listed = ", ".join(map(literal, patterns))
    found = cursor.execute(f"SELECT * FROM parquet_schema([{listed}])").fetchall()  # noqa: S608 - quoted
    schemas = {tuple(row[1:] for row in rows) for _, rows in groupby(found, key=itemgetter(0))}
    return len(schemas) == 1
