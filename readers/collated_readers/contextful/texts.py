"""All texts of a store, for the index that the rankings of many stores need; and how many rows it has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from collated_readers.codes import RequestError
from collated_readers.textindex import Text

from .instants import rfc3339
from .model import Table
from .reads import Reads
from .responses import SESSION_ZONE, admits
from .retrieving.arms import Arm, arm_of, names_of
from .retrieving.columns import heading_column, joined, text_of
from .schemas import quoted
from .tools.rows import NAME
from .wire import Counted

__all__ = ["counted", "texts_after"]

_ROWS = 100_000  # of a table, the newest; what is older is found by the tools and by the store's own ranking
_BYTES = 16 * 1024 * 1024  # after so many a page ends
_KIND = "row"


def counted(reads: Reads) -> Counted:
    """Return how many tables are served and rows they show; `warnings` say of the others why not."""
    rows = 0
    warnings: list[dict[str, str]] = []
    names = sorted(reads.relations & reads.store.tables.keys())
    for name in names:
        try:
            reads.touch([name])
            rows += int(reads.query(f"SELECT count(*) FROM {quoted(name)}", limit=1).rows[0][0])  # noqa: S608
        except RequestError as error:
            warnings.append({"code": error.code, "message": f"table {name}: {error.message}"})
    for name, table in sorted(reads.store.tables.items()):
        if reason := _withheld(table):
            warnings.append({"code": "withheld", "message": f"table {name}: {reason}"})
    details: dict[str, Any] = {"project": reads.store.project}
    shown = [table for name in names if not _withheld(table := reads.store.tables[name])]
    if committed := [at for table in shown for at in _instants(table)]:
        details["committed_at"] = rfc3339(max(committed))
    if warnings:
        details["warnings"] = warnings
    return Counted(reads.store.digest, len(names), rows, details)


def _instants(table: Table) -> Iterator[int]:
    """Yield when what the table shows was committed, or folded."""
    yield from (run.committed_at for run in table.runs)
    yield from (snapshot.created_at for snapshot in table.chain)


def _withheld(table: Table) -> str | None:
    """Return why a table, or every row of it, is not shown."""
    if table.declared.withheld or admits(table.declared.zone_allow):
        return table.declared.withheld
    return f"its zone does not admit {SESSION_ZONE}, so it shows no rows"


def texts_after(reads: Reads, after: str | None) -> list[Text]:
    """Return the next texts in the order of tables and then of names; none when there are no more.

    Of a table with very many rows only the newest are among them. Two rows of one name, of runs of two
    nodes, are one text, the first's.
    """
    page: list[Text] = []
    size = 0
    for text in _texts(reads, after):
        page.append(text)
        size += len(text.text)
        if size >= _BYTES:
            break
    return page


def _texts(reads: Reads, after: str | None) -> Iterator[Text]:
    table, name = _split(after)
    for arm in _arms(reads):
        if table is None or arm.table >= table:
            yield from _rows(reads, arm, name if arm.table == table else "")


def _split(after: str | None) -> tuple[str | None, str]:
    if after is None:
        return None, ""
    table, run, number = after.rsplit("/", 2)
    return table, f"{run}/{number}"


def _arms(reads: Reads) -> Iterator[Arm]:
    for name in sorted(names_of(reads, "", None)):
        try:
            reads.touch([name])
            arm = arm_of(reads.store.tables[name], reads.columns(name), with_vectors=False)
        except RequestError:  # what is wrong with a table is said in the store's details
            continue
        if arm is not None and arm.scored:
            yield arm


def _rows(reads: Reads, arm: Arm, after: str) -> Iterator[Text]:
    columns = list(dict.fromkeys((*arm.scored, *arm.shown)))
    chosen = ", ".join([NAME, *map(quoted, columns)])
    site = ["_site_id"] if "_site_id" in arm.types else []
    order = ", ".join([NAME, *map(quoted, (*site, *columns))])  # of one name, always the same first
    newest = f"(SELECT * FROM {quoted(arm.table)} ORDER BY {arm.order} LIMIT {_ROWS})"  # noqa: S608
    while True:
        sql = f"SELECT {chosen} FROM {newest} WHERE {NAME} > ? ORDER BY {order}"  # noqa: S608
        page = reads.query(sql, [after], limit=_ROWS)
        for name, rows in groupby(page.rows, key=lambda row: row[0]):
            cells = dict(zip(columns, next(rows)[1:], strict=True))
            yield _text(arm, str(name), cells)
            after = str(name)
        if not page.is_more:
            return


def _text(arm: Arm, name: str, cells: dict[str, Any]) -> Text:
    label = heading_column(arm.shown)
    heading = None if label is None else cells.get(label)
    return Text(
        id=f"{arm.table}/{name}",
        doc=arm.table,
        heading_path=arm.table if heading is None else text_of(heading),
        kind=_KIND,
        text=joined(cells.get(column) for column in arm.scored) or "",
    )
