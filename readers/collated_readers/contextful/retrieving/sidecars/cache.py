"""Sidecars that were opened, so that the next question need not open them again (`lexical-index-cache`)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import msgspec

from collated_readers.contextful.model import IndexEntry

from .files import Unusable, check_manifest, folder_of, mapped
from .graph import LARGEST_GRAPH, LARGEST_VECTORS, Graph
from .postings import LARGEST_POSTINGS, Postings

__all__ = ["Sidecars"]

_MOST = 64

_Kind = TypeVar("_Kind")

_Key = tuple[str, str, str, bytes]


class Sidecars:
    """The sidecars of any number of stores, 64 at most; the one that was opened first goes first."""

    def __init__(self, most: int = _MOST) -> None:
        """Hold *most* at a time, none yet."""
        self._most = most
        self._postings: OrderedDict[_Key, Postings] = OrderedDict()
        self._graphs: OrderedDict[_Key, Graph] = OrderedDict()

    def __len__(self) -> int:
        """Return how many full-text sidecars are held."""
        return len(self._postings)

    def postings(self, root: str, snapshot: str, entry: IndexEntry) -> Postings:
        """Return the full-text sidecar *entry* of the directory *snapshot* below *root*.

        Raises:
            Unusable: it is not there, or not what it should be.
        """
        return self._held(
            self._postings, _key(root, snapshot, entry), lambda: _postings(root, snapshot, entry)
        )

    def graph(self, root: str, snapshot: str, entry: IndexEntry) -> Graph:
        """Return the vector sidecar *entry* of the directory *snapshot* below *root*.

        Raises:
            Unusable: it is not there, too large, or not what it should be.
        """
        return self._held(self._graphs, _key(root, snapshot, entry), lambda: _graph(root, snapshot, entry))

    def _held(self, held: OrderedDict[_Key, _Kind], key: _Key, make: Callable[[], _Kind]) -> _Kind:
        found = held.get(key)
        if found is None:
            found = held[key] = make()
            if len(held) > self._most:
                held.popitem(last=False)
        return found


def _key(root: str, snapshot: str, entry: IndexEntry) -> _Key:
    return root, snapshot, entry.path, msgspec.json.encode(dict(entry.manifest))


def _postings(root: str, snapshot: str, entry: IndexEntry) -> Postings:
    folder = folder_of(root, snapshot, entry)
    check_manifest(folder, entry)
    return Postings(mapped(folder / "postings.bin", LARGEST_POSTINGS), entry)


def _graph(root: str, snapshot: str, entry: IndexEntry) -> Graph:
    if entry.row_count * entry.dim * 4 > LARGEST_VECTORS:  # so that its file is not even looked at
        raise Unusable("more vectors than are loaded")
    folder = folder_of(root, snapshot, entry)
    check_manifest(folder, entry)
    return Graph(mapped(folder / "graph.bin", LARGEST_GRAPH), entry)
