"""The table of contents: one line for each table, with its rows."""

from __future__ import annotations

from collated_readers.codes import RequestError
from collated_readers.contextful.model import Bounds
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.schemas import quoted

from .call import Call

__all__ = ["index"]

_LABEL_CHARACTERS = 60
_NAME_CHARACTERS = 30


def index(call: Call, prefix: str | None = None) -> str:
    """Return the tables whose name starts with *prefix*, what they are, and how many rows they show.

    A table that cannot be read has the code of its refusal in place of a number.

    Raises:
        RequestError: `engine_error`.
    """
    reads = call.reads_of(Bounds())
    names = sorted(
        name for name in reads.relations & reads.store.tables.keys() if name.startswith(prefix or "")
    )
    counts = {name: _count(reads, name) for name in names}
    total = sum(count for count in counts.values() if isinstance(count, int))
    head = f"Context store {call.store.project} · {len(names)} tables · {total} rows"
    return "\n".join([head, *(_line(reads, name, counts[name]) for name in names)])


def _count(reads: Reads, name: str) -> int | str:
    try:
        reads.touch([name])
    except RequestError as error:
        return error.code
    return int(reads.query(f"SELECT count(*) FROM {quoted(name)}", limit=1).rows[0][0])  # noqa: S608


def _line(reads: Reads, name: str, count: int | str) -> str:
    label = " ".join((reads.store.tables[name].declared.description or "").split())
    if len(label) > _LABEL_CHARACTERS:
        label = label[: _LABEL_CHARACTERS - 1].rstrip() + "…"
    return f"{name:<{_NAME_CHARACTERS}}  {label}  ({count})"
