"""Which candidates are no older version of something the table has a newer one of (retrieve.md §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collated_readers.contextful.reads import Reads
from collated_readers.contextful.schemas import quoted

from .arms import Arm, Row
from .candidates import among
from .filters import Where

__all__ = ["newest_only"]

_Identity = tuple[str, str, str]


def newest_only(
    reads: Reads, rows: Sequence[Row], candidates: Sequence[Row], wheres: Mapping[str, Where]
) -> list[Row]:
    """Return *rows* without those whose key a newer row of the table has.

    That row need be no candidate: all rows that meet the table's condition in *wheres* count. A row
    without a key stays. What is found out of one of *candidates* is found out of all of its table at once,
    and noted with them.
    """
    unknown = {row.arm.table for row in rows if row.key is not None and row.is_newest is None}
    for table in sorted(unknown):
        _note(
            reads,
            [row for row in candidates if row.arm.table == table and row.is_newest is None],
            wheres[table],
        )
    return [row for row in rows if row.key is None or row.is_newest]


def _note(reads: Reads, rows: Sequence[Row], where: Where) -> None:
    newest = _newest(reads, rows[0].arm, where, sorted({row.key for row in rows if row.key is not None}))
    for row in rows:
        row.is_newest = row.identity in newest


def _newest(reads: Reads, arm: Arm, where: Where, keys: Sequence[str]) -> set[_Identity]:
    """Return the newest row of each of *keys*, over the whole relation."""
    key = quoted(arm.key or "")
    site = '"_site_id"' if "_site_id" in arm.types else "NULL"
    identity = f'SELECT "_run_id", "_row_seq", {site} FROM {quoted(arm.table)}'  # noqa: S608 - quoted names
    newest = f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {arm.order}) = 1"
    page = reads.query(
        f"{identity}{where.clause(among(arm.key or ''))} {newest}", (list(keys), *where.values)
    )
    return {(str(run), str(row), str(site)) for run, row, site in page.rows}
