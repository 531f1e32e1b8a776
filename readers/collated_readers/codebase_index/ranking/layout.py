"""Where the chunks of a store's files are, read once for each file: most searches look at the same ones."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import groupby, islice
from operator import itemgetter

from msgspec import Struct

from collated_readers.codebase_index.kept import MOST_KEPT, kept
from collated_readers.codebase_index.places import line_of, record_id_of
from collated_readers.contract import StoreError
from collated_readers.values import Row, integer, text

__all__ = ["File", "files_of"]

_CHUNKS = """
SELECT f.id, f.path, c.line_start, c.line_end, c.kind IS 'doc', c.id
FROM files AS f LEFT JOIN chunks AS c ON c.file_id = f.id
WHERE f.id IN (SELECT value FROM json_each(?))
ORDER BY f.id, c.line_start, c.line_end, c.kind IS 'doc', c.id"""


class File(Struct, frozen=True, gc=False):
    """A file's chunks, each in one place of all sequences: those of its own text first, the smallest first.

    `own` says how many those are; `numbers` count chunks of the same lines, from 1, the own text's first.
    """

    path: str
    own: int
    rows: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    numbers: Sequence[int]

    def around(self, line: int) -> int | None:
        """Return the row of the smallest chunk of the file's own text around *line*, None for none."""
        for start, end, row in islice(zip(self.starts, self.ends, self.rows, strict=True), self.own):
            if start <= line <= end:
                return row
        return None

    def id_of(self, row: int) -> str:
        """Return the id of the record at *row*, which is one of the file's."""
        at = self.rows.index(row)
        return record_id_of(self.path, self.starts[at], self.ends[at], self.numbers[at])


class _Layout:
    """The files of a store that were looked at; once these have too many chunks, all are forgotten."""

    def __init__(self) -> None:
        self._files: dict[int, File] = {}
        self._chunks = 0

    def __len__(self) -> int:
        """Return how many chunks the known files have."""
        return self._chunks

    def files(self, db: sqlite3.Connection, wanted: Set[int]) -> Mapping[int, File]:
        """Return those of the files *wanted* that are there, by row id."""
        read = _read(db, wanted - self._files.keys())
        found = {file: self._files[file] for file in wanted & self._files.keys()} | read
        self._chunks += sum(len(file.rows) for file in read.values())
        self._files |= read
        if self._chunks > MOST_KEPT:
            self._files, self._chunks = {}, 0
        return found


@kept
def _layout_of(_: sqlite3.Connection) -> _Layout:
    return _Layout()


def files_of(db: sqlite3.Connection, wanted: Set[int]) -> Mapping[int, File]:
    """Return those of the files with these row ids that are there.

    Raises:
        StoreError: `damaged`.
    """
    return _layout_of(db).files(db, wanted)


def _read(db: sqlite3.Connection, wanted: Set[int]) -> dict[int, File]:
    files: dict[int, File] = {}
    rows = db.execute(_CHUNKS, (json.dumps(list(wanted)),)) if wanted else ()
    for (file, path), chunks in groupby(rows, key=itemgetter(0, 1)):
        if integer(file) in files:
            raise StoreError("damaged", "two of the store's files have one row id")
        files[file] = _file(text(path), chunks)
    return files


def _file(path: str, rows: Iterable[Row]) -> File:
    """Return the file whose chunks are *rows*, by their lines; a row of NULLs is none. Pure."""
    chunks: list[tuple[bool, int, int, int, int]] = []
    for place, same in groupby((row for row in rows if row[5] is not None), key=itemgetter(2, 3)):
        start, end = map(line_of, place)
        for number, (*_, is_derived, row) in enumerate(same, start=1):
            chunks.append((bool(is_derived), end - start, start, integer(row), number))
    chunks.sort()
    derived, sizes, starts, ids, numbers = zip(*chunks, strict=True) if chunks else ((), (), (), (), ())
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    lines = (array("i", each) for each in (starts, ends, numbers))
    return File(path, derived.count(False), array("q", ids), *lines)
