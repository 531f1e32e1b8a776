"""The promise of `bge-m3-lossless-v1`: its chunks, put together by offset, are the whole text (L5–L9)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from collated_readers.contract import StoreError

from .passages import Passage, named

__all__ = ["Reconstruction", "Source"]


class Source(Struct, frozen=True):
    """What is known of the whole text: its SHA-256 as UTF-8, its length in characters."""

    sha256: str | None = None
    chars: int | None = None

    @classmethod
    def of(cls, text: str) -> Source:
        """Return what *text* must be known by."""
        return cls(hashlib.sha256(text.encode()).hexdigest(), len(text))

    @classmethod
    def stated(cls, meanings: Mapping[str, str | int]) -> Source | None:
        """Return what a store's metadata state, None where they are silent."""
        sha256, chars = meanings.get("sha256"), meanings.get("chars")
        if sha256 is None and chars is None:
            return None
        return cls(None if sha256 is None else f"{sha256}", None if chars is None else int(chars))


class Reconstruction:
    """The text as far as its chunks have come, in ordinal order: its hash, and the end of it."""

    def __init__(self, *, is_strict: bool) -> None:
        """Begin at the first character; a strict one takes no overlap."""
        self._is_strict = is_strict
        self._hash = hashlib.sha256()
        self._end = 0
        self._tail = ""  # from the last chunk's first character on
        self._ordinal: object = None

    def take(self, chunk: Passage) -> Iterator[str]:
        """Add a chunk, and yield the codes of what is odd about it.

        Raises:
            StoreError: `checksum_mismatch`, `offset_length_mismatch`, `offset_gap`,
                `reconstruction_mismatch`, naming the chunk.
        """
        _check_sum(chunk)
        start = _check_length(chunk)
        if start > self._end:
            raise StoreError(
                "offset_gap",
                f"{named(chunk.id)} begins at character {start}, and the text before it ends at {self._end}",
            )
        if start < self._end:
            yield "overlapping_chunks"
        self._append(chunk, start)
        before, self._ordinal = self._ordinal, chunk.id
        if isinstance(before, int) and isinstance(chunk.id, int) and chunk.id != before + 1:
            yield "ordinal_hole"

    def _append(self, chunk: Passage, start: int) -> None:
        shared = self._tail[len(self._tail) - (self._end - start) :] if start < self._end else ""
        is_behind = self._end - start > len(self._tail)
        size = min(len(shared), len(chunk.text))
        if is_behind or shared[:size] != chunk.text[:size] or (shared and self._is_strict):
            raise StoreError(
                "reconstruction_mismatch",
                f"{named(chunk.id)} begins at character {start}, within the text before it, "
                + ("which is not allowed" if self._is_strict else "and says something else there"),
            )
        new = chunk.text[size:]
        self._hash.update(new.encode())
        self._tail = shared + new
        self._end += len(new)

    def compare(self, sources: Sequence[Source]) -> bool:
        """Tell whether there was anything to compare the whole text with.

        Raises:
            StoreError: `reconstruction_mismatch`.
        """
        for source in sources:
            if source.chars is not None and source.chars != self._end:
                raise StoreError(
                    "reconstruction_mismatch",
                    f"the chunks make up {self._end} characters, and the whole text has {source.chars}",
                )
            if source.sha256 is not None and source.sha256 != self._hash.hexdigest():
                raise StoreError(
                    "reconstruction_mismatch",
                    f"the chunks make up a text of SHA-256 {self._hash.hexdigest()}, not {source.sha256}",
                )
        return bool(sources)


def _check_sum(chunk: Passage) -> None:
    stated = chunk.source.get("text_sha256")
    found = hashlib.sha256(chunk.text.encode()).hexdigest()
    if not isinstance(stated, str) or stated.lower() != found:
        raise StoreError(
            "checksum_mismatch",
            f"the text of {named(chunk.id)} has SHA-256 {found}, and the store says {stated!r:.80}",
        )


def _check_length(chunk: Passage) -> int:
    """Return where the chunk begins."""
    start, end = chunk.source.get("char_start"), chunk.source.get("char_end")
    if not isinstance(start, int) or not isinstance(end, int):
        raise StoreError(
            "offset_length_mismatch", f"the offsets of {named(chunk.id)} are {start!r:.40} and {end!r:.40}"
        )
    if end - start != len(chunk.text):
        raise StoreError(
            "offset_length_mismatch",
            f"{named(chunk.id)} reaches from {start} to {end} and has {len(chunk.text)} characters"
            + _unit(chunk.text, end - start),
        )
    return start


def _unit(text: str, length: int) -> str:
    if length == len(text.encode()):
        return "; these are offsets in bytes of UTF-8"
    if length == len(text.encode("utf-16-le")) // 2:
        return "; these are offsets in units of UTF-16"
    return ""
