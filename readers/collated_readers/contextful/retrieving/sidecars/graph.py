"""The vector sidecar: `graph.bin`, of which the vectors and the identifiers are used (layout §6).

All vectors are compared, which finds at least what the graph would; its links are skipped, but measured.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collated_readers.contextful.model import IndexEntry

from .files import Unusable

__all__ = ["LARGEST_GRAPH", "LARGEST_VECTORS", "Graph"]

LARGEST_VECTORS = 64 * 1024 * 1024
"""Bytes of vectors beyond which a sidecar stays closed (`sidecar-size-cap`)."""

LARGEST_GRAPH = 1024 * 1024 * 1024  # with links and identifiers, which are mapped but mostly never read

_MAGIC = b"CFHNSW\x00\x01"
_HEADER = struct.Struct("<8s6I")
_U32 = struct.Struct("<I")
_WORD, _OFFSET = 4, 8
_HIGHEST = 255  # of layers: a node's level is one byte


class Graph:
    """An opened `graph.bin`."""

    def __init__(self, data: mmap.mmap | bytes, entry: IndexEntry) -> None:
        """Find the parts of *data*.

        Raises:
            Unusable: it is not what *entry* says.
        """
        self._data = data
        if len(data) < _HEADER.size:
            raise Unusable("shorter than its header")
        magic, dim, count, links, levels, _entry, _reserved = _HEADER.unpack_from(data)
        if magic != _MAGIC or dim != entry.dim or count != entry.row_count or not dim:
            raise Unusable("another format, dimension or number of rows")
        if count * dim * _WORD > LARGEST_VECTORS:
            raise Unusable("more vectors than are loaded")
        self._count = count
        offsets = self._behind_layers(_HEADER.size + count * dim * _WORD, links, levels)
        self._blob = offsets + (count + 1) * _OFFSET
        if self._blob > len(data):
            raise Unusable("shorter than its parts")
        self._vectors = np.frombuffer(data, "<f4", count * dim, _HEADER.size).reshape(count, dim)
        self._offsets = np.frombuffer(data, "<u8", count + 1, offsets)

    def _behind_layers(self, end: int, links: int, levels: int) -> int:
        """Return where the layers end that begin where the vectors do *end*, behind the nodes' levels."""
        if levels > _HIGHEST:
            raise Unusable("more layers than nodes can have")
        end += self._count + -self._count % _WORD
        end += self._count * (1 + 2 * links) * _WORD
        for _ in range(levels):
            if end + _WORD > len(self._data):
                raise Unusable("shorter than its layers")
            (nodes,) = _U32.unpack_from(self._data, end)
            end += (1 + nodes + nodes * (1 + links)) * _WORD
        return end

    def ranking(self, query: Sequence[float]) -> NDArray[np.int64]:
        """Return all nodes by the cosine of their vector with *query*, best first, ties by place."""
        wanted = np.array(query, np.float64)
        with np.errstate(all="ignore"):
            norm = float(np.linalg.norm(wanted))
            if not norm or not math.isfinite(norm):
                return np.empty(0, np.int64)
            cosines = self._vectors @ (wanted / norm).astype(np.float32)
        return np.argsort(-np.nan_to_num(cosines, nan=-2.0), kind="stable")

    def ids(self, nodes: Sequence[int]) -> list[str]:
        """Return the identifiers of *nodes*.

        Raises:
            Unusable: one lies outside the file, or is no text.
        """
        return [self._id(int(node)) for node in nodes]

    def _id(self, node: int) -> str:
        start, end = int(self._offsets[node]), int(self._offsets[node + 1])
        if start > end or self._blob + end > len(self._data):
            raise Unusable("an identifier outside its part")
        try:
            return self._data[self._blob + start : self._blob + end].decode()
        except UnicodeDecodeError as error:
            raise Unusable("an identifier that is no text") from error
