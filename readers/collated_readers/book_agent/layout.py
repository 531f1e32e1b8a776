"""What both contracts come down to: where a store keeps its passages, and what its vectors are."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from collated_readers.vectors import Direction, Metric

__all__ = ["BGE", "DIRECTIONS", "EXPLICIT", "Columns", "Encoding", "Layout", "Warned", "quoted"]

BGE = "bge-m3-lossless-v1"
EXPLICIT = "book-agent-explicit-v1"

DIRECTIONS: Mapping[Metric, Direction] = {"dot": "higher", "cosine": "higher", "l2": "lower"}

Encoding = str
"""`json`, or the numpy type of the numbers in a BLOB: `<f4`, `>f4`, `<f8`, `>f8`."""


class Warned(Struct, frozen=True):
    """Something that is no failure: a stable code, and what it is about."""

    code: str
    message: str


class Columns(Struct, frozen=True):
    """The table of passages and its columns, by their names in the schema.

    `source_columns` holds (name in the metadata, column); they win over what `source_json` holds.
    """

    table: str
    id: str
    text: str
    vector: str
    source_json: str | None = None
    source_columns: tuple[tuple[str, str], ...] = ()

    def names(self) -> tuple[str, ...]:
        """Return every column that is named."""
        source = () if self.source_json is None else (self.source_json,)
        return (self.id, self.text, self.vector, *source, *(column for _, column in self.source_columns))


class Layout(Struct, frozen=True):
    """One store's contract, as far as its manifest, its metadata and its schema tell.

    `stated` are the metadata of a `bge-m3-lossless-v1` store by meaning. `digest` is of everything
    that was read to make this.
    """

    contract: str
    model: str
    dimensions: int
    encoding: Encoding
    metric: Metric
    columns: Columns
    digest: str
    is_normalized: bool = True
    stated: Mapping[str, str | int] = {}
    warned: tuple[Warned, ...] = ()

    @property
    def direction(self) -> Direction:
        """Return which scores are better."""
        return DIRECTIONS[self.metric]


def quoted(identifier: str) -> str:
    """Return *identifier* for SQL, whatever it holds."""
    return '"' + identifier.replace('"', '""') + '"'
