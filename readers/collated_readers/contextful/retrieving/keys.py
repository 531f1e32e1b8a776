"""Which candidates are no older version of something the table has a newer one of (retrieve.md §6)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from collated_readers.contextful.reads import Reads
from collated_readers.contextful.schemas import quoted

from .arms import Arm, Row
from .candidates import among
from .filters import Where

__all__ = ["newest_only"]

_Identity = tuple[str, str, str]


def newest_only(reads: Reads, rows: Sequence[Row], wheres: dict[str, Where]) -> list[Row]:
    """Return *rows*, those of one table together, without those whose key a newer row of the table has.

    That row need be no candidate: all rows that meet the table's condition in *wheres* count. A row
    without a key stays.
    """
    kept: list[Row] = []
    for table, group in groupby(rows, key=lambda row: row.arm.table):
        kept += _newest_of(reads, list(group), wheres[table])
    return kept


def _newest_of(reads: Reads, rows: list[Row], where: Where) -> list[Row]:
    arm = rows[0].arm
    keys = {row.key for row in rows if row.key is not None}
    if not keys:
        return rows
    newest = _newest(reads, arm, where, sorted(keys))
    return [row for row in rows if row.key is None or row.identity in newest]


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
