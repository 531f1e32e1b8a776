"""`context.files` and `context.file`: the files that relations read, and the rows of one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collated_readers.codes import RequestError
from collated_readers.contextful.model import FileList, Run
from collated_readers.contextful.reads import Page, Reads
from collated_readers.contextful.refusals import refused
from collated_readers.contextful.responses import admits, blocks, internals, respond
from collated_readers.contextful.schemas import quoted

from .arguments import Bounded, bounds_of
from .call import Call, Statement

__all__ = ["File", "Files", "file", "files"]


class Files(Bounded, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nothing but what all tools take; of the bounds `as_of` alone counts (bound-listing)."""


class File(Bounded, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The *path* of a run's part, as `context.files` gives it."""

    path: str


def files(call: Call, params: Files) -> dict[str, Any]:
    """Return table and path of each file that a served table reads, by table, then path.

    A table that cannot be read has no files here; `contextful.unavailable` says so, and why.

    Raises:
        RequestError: `invalid_params`, `ReadResponseTooLarge`.
    """
    reads = call.reads(bounds_of(params, is_listing=True))
    listed, unavailable = _listed(reads)
    rows: list[list[Any]] = [[name, path] for name, paths in listed.items() for path in paths]
    ceilings = call.ceilings(params, ())
    extra = blocks(reads, listed)
    if unavailable:
        extra["contextful.unavailable"] = unavailable
    diagnosis = internals("", ceilings, call.elapsed_ms) if params.internals else None
    return respond(Page(("table", "path"), rows[: ceilings.probe]), ceilings, extra, diagnosis)


def _listed(reads: Reads) -> tuple[dict[str, tuple[str, ...]], list[dict[str, str]]]:
    """Return the files of each table that can be read, by name, and why others cannot."""
    listed: dict[str, tuple[str, ...]] = {}
    unavailable: list[dict[str, str]] = []
    for name in _served(reads):
        try:
            reads.touch([name])
            listed[name] = reads.files(name).files
        except RequestError as error:
            unavailable.append({"table": name, "code": error.code, "message": error.message})
    return listed, unavailable


def _served(reads: Reads) -> list[str]:
    """Return the tables whose rows can be read, but for what stands against single ones."""
    tables = reads.store.tables
    names = reads.relations & tables.keys()
    return sorted(name for name in names if admits(tables[name].declared.zone_allow))


def file(call: Call, params: File) -> dict[str, Any]:
    """Return the rows of a run that the table's relation shows (file-preview-target).

    Raises:
        RequestError: `FilePreviewNotATable`, the same for what is not there, not served or no run's part;
            what stands against the table; `ReadDurationExceeded`, `ReadResponseTooLarge`.
    """
    reads = call.reads(bounds_of(params))
    for name in _served(reads):
        if params.path.startswith(f"{reads.store.tables[name].folder}/data/runs/"):
            reads.touch([name])
            for path, run in _parts(reads.store.tables[name].folder, reads.files(name)):
                if path == params.path:
                    return call.answer(reads, params, _preview(reads, name, run))
    raise refused("FilePreviewNotATable", f"{params.path!r:.300} is no part of a committed run that is read")


def _parts(folder: str, listed: FileList) -> Iterator[tuple[str, Run]]:
    for run in listed.runs:
        for part in run.parts:
            yield f"{folder}/data/runs/{run.key}/{part}", run


def _preview(reads: Reads, name: str, run: Run) -> Statement:
    """Return the statement for the rows of *run*; its number tells it from another node's of the same id."""
    conditions, values = ['"_run_id" = ?'], [run.run_id]
    names = {column.name for column in reads.columns(name)}
    if run.commit_seq is not None and "_commit_seq" in names:
        conditions.append('("_commit_seq" = ? OR "_commit_seq" IS NULL)')
        values.append(run.commit_seq)  # type: ignore[arg-type]  # a list of values to bind
    sql = f'SELECT * FROM {quoted(name)} WHERE {" AND ".join(conditions)} ORDER BY "_row_seq"'  # noqa: S608
    return Statement(sql, [name], values)
