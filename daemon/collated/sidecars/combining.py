"""Several segments made into one (daemon/DESIGN.md), in a bounded number of elements at a time."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from .segment import Segment, narrow, numbers, packed, ranges, widened
from .trigrams import combine_grams

__all__ = ["combine"]

_CHUNK = 4_000_000  # elements that are moved at a time


class _Part(Struct):
    """A segment's share: the slots kept, the first new slot, and by how much each old slot's rows move."""

    segment: Segment
    slots: NDArray[np.int64]
    new_slots: NDArray[np.int64]
    shifts: NDArray[np.int64]

    def rows(self) -> NDArray[np.int64]:
        """Return the old rows that are kept, in their new order."""
        starts = self.segment.row_starts
        return ranges(starts[self.slots], starts[self.slots + 1] - starts[self.slots])


class _Entries(Struct):
    """Entries in their new order: which term, which slot, and where their postings and positions lie."""

    terms: NDArray[np.int64]
    slots: NDArray[np.int64]
    parts: NDArray[np.int64]
    firsts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    position_firsts: NDArray[np.int64]
    position_lengths: NDArray[np.int64]


def combine(parts: Sequence[tuple[Segment, Sequence[int]]], *, chunk: int = _CHUNK) -> Segment:
    """Return one segment of the given slots of each of *parts*, one or more, in that order.

    Some *chunk* elements are moved at a time.
    """
    pieces = [segment.pieces[slot] for segment, slots in parts for slot in slots]
    row_starts = np.concatenate(([0], np.cumsum([piece.rows for piece in pieces]))).astype(np.int64)
    kept = list(_placed(parts, row_starts))
    names = sorted(
        {term for part in kept for term in part.segment.terms()}, key=lambda term: (crc32(term), term)
    )
    entries = _entries(kept, names)
    used = np.unique(entries.terms)  # terms of stores that are dropped go with them
    entries.terms = np.searchsorted(used, entries.terms)
    names = [names[term] for term in numbers(used)]
    arrays = {
        "row_starts": row_starts,
        **_rows(kept),
        **_documents(kept),
        "term_hashes": np.fromiter(map(crc32, names), np.uint32, len(names)),
        **packed("term", names),
        **_terms(entries, len(names)),
        **_moved(kept, entries, chunk),
    }
    if all(part.segment.has_texts for part in kept):
        arrays |= combine_grams([(part.segment.arrays, _row_ranges(part)) for part in kept])
    return Segment(pieces, arrays)


def _placed(parts: Sequence[tuple[Segment, Sequence[int]]], row_starts: NDArray[np.int64]) -> Iterator[_Part]:
    done = 0
    for segment, slots in parts:
        old = np.array(slots, np.int64)
        new_slots = np.full(len(segment.pieces), -1, np.int64)
        new_slots[old] = np.arange(done, done + len(old))
        shifts = np.zeros(len(segment.pieces), np.int64)
        shifts[old] = row_starts[new_slots[old]] - segment.row_starts[old]
        yield _Part(segment, old, new_slots, shifts)
        done += len(old)


def _row_ranges(part: _Part) -> list[tuple[int, int]]:
    starts = part.segment.row_starts
    return [(int(starts[slot]), int(starts[slot + 1])) for slot in part.slots]


def _rows(parts: Sequence[_Part]) -> dict[str, NDArray[Any]]:
    kept = [(part.segment, part.rows()) for part in parts]
    whole = [(segment.ids(), numbers(rows)) for segment, rows in kept]
    ids = [names[row] for names, rows in whole for row in rows]
    ranks = {name: rank for rank, name in enumerate(sorted(set(ids)))}
    return {
        **{
            name: np.concatenate([segment.arrays[name][rows] for segment, rows in kept])
            for name in ("locators", "lengths", "norms")
        },
        "id_ranks": np.fromiter((ranks[name] for name in ids), np.uint32, len(ids)),
        **packed("id", ids),
    }


def _documents(parts: Sequence[_Part]) -> dict[str, NDArray[Any]]:
    paths: list[bytes] = []
    slots = [0]
    row_docs: list[NDArray[Any]] = [np.empty(0, np.int64)]
    for part in parts:
        every = [path.encode(errors="surrogatepass") for path in part.segment.docs()]
        firsts, docs = part.segment.arrays["doc_slots"], part.segment.arrays["row_docs"]
        for slot, (first, last) in zip(part.slots.tolist(), _row_ranges(part), strict=True):
            row_docs.append(docs[first:last] + np.int64(len(paths) - int(firsts[slot])))
            paths += every[int(firsts[slot]) : int(firsts[slot + 1])]
            slots.append(len(paths))
    return {
        "doc_slots": np.array(slots, np.int64),
        "row_docs": np.concatenate(row_docs).astype(np.uint32),
        **packed("doc", paths),
    }


def _entries(parts: Sequence[_Part], names: Sequence[bytes]) -> _Entries:
    places = {name: place for place, name in enumerate(names)}
    found = [_entries_of(number, part, places) for number, part in enumerate(parts)]
    joined = [np.concatenate(each) for each in zip(*found, strict=True)]
    order = np.lexsort((joined[1], joined[0]))
    return _Entries(*(each[order] for each in joined))


def _entries_of(number: int, part: _Part, places: dict[bytes, int]) -> tuple[NDArray[np.int64], ...]:
    segment = part.segment
    terms = segment.terms()
    new_terms = np.fromiter((places[term] for term in terms), np.int64, len(terms))
    of_entry = np.repeat(new_terms, np.diff(segment.entries))
    slots = part.new_slots[segment.entry_slots]
    firsts = segment.entry_firsts.astype(np.int64)
    ends = np.concatenate(([0], np.cumsum(segment.counts, dtype=np.int64)))[firsts]
    keep = (slots >= 0) & (np.diff(firsts) > 0)
    every = (
        of_entry,
        slots,
        np.full(len(slots), number, np.int64),
        firsts[:-1],
        np.diff(firsts),
        ends[:-1],
        np.diff(ends),
    )
    return tuple(each[keep] for each in every)


def _terms(entries: _Entries, count: int) -> dict[str, NDArray[Any]]:
    edges = np.searchsorted(entries.terms, np.arange(count + 1))
    position_ends = np.concatenate(([0], np.cumsum(entries.position_lengths)))
    return {
        "term_entries": edges.astype(np.int64),
        "term_positions": position_ends[edges].astype(np.int64),
        "entry_slots": narrow(entries.slots, np.uint16, np.uint32),
        "entry_firsts": narrow(np.concatenate(([0], np.cumsum(entries.lengths))), np.uint32),
    }


def _moved(parts: Sequence[_Part], entries: _Entries, chunk: int) -> dict[str, NDArray[Any]]:
    segments = [part.segment for part in parts]
    is_short = all(segment.positions.dtype == np.uint16 for segment in segments)
    postings, instances = int(entries.lengths.sum()), int(entries.position_lengths.sum())
    rows = np.empty(postings, np.uint32)
    freqs = np.empty(postings, np.result_type(*(segment.freqs.dtype for segment in segments)))
    counts = np.empty(postings, np.result_type(*(segment.counts.dtype for segment in segments)))
    positions = np.empty(instances, np.uint16 if is_short else np.uint32)
    shifts = np.concatenate([part.shifts[part.slots] for part in parts])  # by new slot
    for at, number, taken, chosen in _chunks(entries.firsts, entries.lengths, entries.parts, chunk):
        moved_by = np.repeat(shifts[entries.slots[chosen]], entries.lengths[chosen])
        rows[at] = segments[number].rows[taken] + moved_by
        freqs[at] = segments[number].freqs[taken]
        counts[at] = segments[number].counts[taken]
    for at, number, taken, _ in _chunks(
        entries.position_firsts, entries.position_lengths, entries.parts, chunk
    ):
        found = segments[number].positions[taken]
        positions[at] = found if is_short else widened(found)
    return {"rows": rows, "freqs": freqs, "counts": counts, "positions": positions}


def _chunks(
    firsts: NDArray[np.int64], lengths: NDArray[np.int64], parts: NDArray[np.int64], size: int
) -> Iterator[tuple[NDArray[np.int64], int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield (new places, part, old places, entries), some *size* elements at a time."""
    ends = np.concatenate(([0], np.cumsum(lengths)))
    edges = np.unique(np.searchsorted(ends, np.arange(0, int(ends[-1]) + size, size), "left"))
    for first, last in pairwise(numbers(edges)):
        for number in numbers(np.unique(parts[first:last])):
            chosen = first + np.flatnonzero(parts[first:last] == number)
            yield (
                ranges(ends[:-1][chosen], lengths[chosen]),
                number,
                ranges(firsts[chosen], lengths[chosen]),
                chosen,
            )
