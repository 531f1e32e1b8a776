"""Sessions of stores that tests make, and the files of sidecars, written as layout §6 says."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Bounds, IndexEntry
from collated_readers.contextful.retrieving import Retrieved, RetrieveParams, retrieve
from collated_readers.contextful.retrieving.sidecars.terms import terms_of
from collated_readers.contextful.session import Session, open_session

if TYPE_CHECKING:
    from pathlib import Path

NOW_NS = 1_900_000_000 * 10**9  # 2030-03-17

Sidecar = tuple[dict[str, Any], str, bytes]
"""An entry of a snapshot's manifest, the name of the file, and what is in it."""


@pytest.fixture
def opened() -> Iterator[Callable[..., Session]]:
    """`opened(root, bounds=Bounds())` opens the store at *root*."""
    with ExitStack() as stack:

        def open_(root: Path, bounds: Bounds | None = None) -> Session:
            session = open_session(load_store(root), bounds or Bounds(), memory_bytes=1 << 28, threads=1)
            return stack.enter_context(closing(session))

        yield open_


@pytest.fixture(scope="session")
def asked() -> Callable[..., Retrieved]:
    """`asked(reads, query, **params)` retrieves."""

    def ask(reads: Session, query: str, **params: Any) -> Retrieved:
        others: dict[str, Any] = {"now_ns": NOW_NS}
        others |= {name: params.pop(name) for name in ("kept", "sidecars", "now_ns") if name in params}
        return retrieve(reads, RetrieveParams(query=query, **params), **others)

    return ask


@pytest.fixture(scope="session")
def rows_of() -> Callable[[Retrieved], list[dict[str, Any]]]:
    """`rows_of(retrieved)` are its delivered rows by column."""
    return lambda found: [
        dict(zip(found.columns, row, strict=True)) for row in found.rows[: found.ceilings.rows.value]
    ]


@pytest.fixture(scope="session")
def fulltext() -> Callable[..., Sidecar]:
    """`fulltext(column, {id: text}, id_column="id", tokenizer="unicode")` is a full-text sidecar."""

    def make(
        column: str, texts: Mapping[str, str], id_column: str = "id", tokenizer: str = "unicode"
    ) -> Sidecar:
        terms = {name: terms_of(text.lower(), tokenizer) for name, text in texts.items()}
        data, count = postings_bytes([(name, found) for name, found in terms.items() if found])
        entry = {
            "kind": "fulltext",
            "path": f"indexes/fts-{column}-{tokenizer}",
            "column": column,
            "id_column": id_column,
            "tokenizer": tokenizer,
            "builder": "contextful-postings",
            "builder_version": 1,
            "row_count": len(texts),
            "term_count": count,
            "key_version": 0,
        }
        return entry, "postings.bin", data

    return make


@pytest.fixture(scope="session")
def vectors() -> Callable[..., Sidecar]:
    """`vectors({id: vector}, id_column="id", links=2, levels=(1, 1))` is a vector sidecar.

    *levels* says how many nodes each layer above the first has.
    """

    def make(
        of: Mapping[str, Sequence[float]], id_column: str = "id", links: int = 2, levels: Sequence[int] = ()
    ) -> Sidecar:
        dim = len(next(iter(of.values())))
        entry = {
            "kind": "vector",
            "path": "indexes/vec-embedding-stub/zone=all",
            "column": "embedding",
            "id_column": id_column,
            "model": "stub",
            "dim": dim,
            "metric": "cosine",
            "m": links,
            "ef_construction": 200,
            "builder": "contextful-hnsw",
            "builder_version": 1,
            "row_count": len(of),
            "key_version": 0,
        }
        return entry, "graph.bin", graph_bytes(of, links, levels)

    return make


@pytest.fixture(scope="session")
def entry_of() -> Callable[[Mapping[str, Any]], IndexEntry]:
    """`entry_of(entry)` is an entry of a manifest as readers have it."""

    def make(entry: Mapping[str, Any]) -> IndexEntry:
        known = {name: entry[name] for name in IndexEntry.__struct_fields__ if name in entry}
        return IndexEntry(**known, manifest=entry)

    return make


def postings_bytes(documents: Sequence[tuple[str, Sequence[str]]]) -> tuple[bytes, int]:
    """Return `postings.bin` of (id, terms) and how many different terms there are."""
    places: dict[bytes, dict[int, list[int]]] = {}
    for number, (_, terms) in enumerate(documents):
        for at, term in enumerate(terms):
            places.setdefault(term.encode(), {}).setdefault(number, []).append(at)
    rows, ids, rows_of_terms, names, lists = bytearray(), bytearray(), bytearray(), bytearray(), bytearray()
    for record_id, terms in documents:
        rows += struct.pack("<QII", len(ids), len(record_id.encode()), len(terms))
        ids += record_id.encode()
    for name, found in sorted(places.items()):
        packed = b"".join(
            struct.pack(f"<II{len(at)}I", number, len(at), *at) for number, at in sorted(found.items())
        )
        rows_of_terms += struct.pack("<QIIQQ", len(names), len(name), len(found), len(lists), len(packed))
        names += name
        lists += packed
    parts = [bytes(part) for part in (rows, ids, rows_of_terms, names, lists)]
    offsets = [72]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    total = sum(len(terms) for _, terms in documents)
    head = struct.pack("<8sIIQ6Q", b"CFPOST01", len(documents), len(places), total, *offsets)
    return head + b"".join(parts), len(places)


def graph_bytes(of: Mapping[str, Sequence[float]], links: int, levels: Sequence[int]) -> bytes:
    """Return `graph.bin`; the links lead nowhere, since nobody follows them."""
    given = np.array(list(of.values()), np.float64)
    unit = (given / np.linalg.norm(given, axis=1, keepdims=True)).astype("<f4")
    count, dim = unit.shape
    head = struct.pack("<8s6I", b"CFHNSW\x00\x01", dim, count, links, len(levels), 0, 0)
    layers = bytes(count + -count % 4) + bytes(4 * count * (1 + 2 * links))
    for nodes in levels:
        layers += struct.pack(f"<I{nodes}I", nodes, *range(nodes)) + bytes(4 * nodes * (1 + links))
    ids = [name.encode() for name in of]
    ends: bytes = np.cumsum([0, *map(len, ids)]).astype("<u8").tobytes()
    return b"".join([head, unit.tobytes(), layers, ends, *ids])
