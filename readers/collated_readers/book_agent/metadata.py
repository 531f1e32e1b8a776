"""The `metadata` of `bge-m3-lossless-v1`: what its rows mean, and whether they say what they must.

Which names and spellings real stores use is not known: each meaning has several (formats/book-agent.md A2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from collated_readers.contract import StoreError

from .layout import BGE

__all__ = ["ALIASES", "DIMENSIONS", "conflict", "meanings_of"]

DIMENSIONS = 1024

ALIASES: Mapping[str, str] = {
    alias: meaning
    for meaning, aliases in {
        "contract": ("contract", "contract_version"),
        "model": ("model", "model_name", "embedding_model"),
        "dimensions": ("dimensions", "dimension", "dim", "embedding_dim"),
        "type": ("embedding_dtype", "dtype", "embedding_format", "vector_format"),
        "order": ("byte_order", "endianness"),
        "normalized": ("normalized", "normalization", "normalize_embeddings"),
        "metric": ("metric", "similarity"),
        "count": ("chunk_count", "chunks", "num_chunks"),
        "sha256": ("source_sha256", "text_sha256", "full_text_sha256"),
        "chars": ("source_chars", "total_chars"),
        "path": ("source_path", "source_file", "path"),
        "title": ("title", "source_title", "book_title"),
    }.items()
    for alias in aliases
}
"""Each name of a row, in lower case, with what it means."""

_REQUIRED = ("model", "dimensions", "type", "order", "normalized")
_MODEL_NAME = "BAAI/bge-m3"
_MODEL = re.compile(r"(?:BAAI/)?bge-m3(?P<revision>@.+)?", re.IGNORECASE)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LITTLE = {"little", "le", "little-endian", "<"}
_ORDERED_TYPES = {"float32-le", "little-endian float32", "<f4"}  # which name the byte order too

Meaning = str | int


def meanings_of(rows: Iterable[tuple[object, object]]) -> dict[str, Meaning]:
    """Return what the *rows* (name, value) of metadata say, by meaning. Pure.

    Raises:
        StoreError: `metadata_conflict`: they contradict each other or the contract, or lack something.
    """
    stated: dict[str, tuple[str, Meaning]] = {}
    is_ordered = False
    for name, value in rows:
        meaning = ALIASES.get(name.lower()) if isinstance(name, str) else None
        if meaning is None:
            continue
        understood = _understood(meaning, f"{name}", value)
        is_ordered |= meaning == "type" and str(value).strip().lower() in _ORDERED_TYPES
        before = stated.setdefault(meaning, (f"{name}", understood))
        if before[1] != understood:
            raise conflict(f"{before[0]} says {before[1]!r:.80}, {name} says {understood!r:.80}")
    meanings = {meaning: understood for meaning, (_, understood) in stated.items()}
    if is_ordered:
        meanings.setdefault("order", "little")
    missing = [meaning for meaning in _REQUIRED if meaning not in meanings]
    if missing:
        raise conflict(f"nothing states the {' and the '.join(missing)} of the vectors")
    return meanings


def conflict(what: str) -> StoreError:
    """Return the failure of a store whose metadata are not those of its contract."""
    return StoreError("metadata_conflict", f"the metadata do not fit {BGE}: {what}")


def _understood(meaning: str, name: str, value: object) -> Meaning:
    if not isinstance(value, str | int):
        raise conflict(f"{name:.80} is neither text nor a whole number")
    said = str(value).strip()
    return _READ.get(meaning, _as_it_is)(name, said)


def _as_it_is(name: str, said: str) -> Meaning:
    return said


def _one_of(*allowed: str) -> Callable[[str, str], Meaning]:
    def understand(name: str, said: str) -> Meaning:
        if said.lower() not in allowed:
            raise conflict(f"{name:.80} is {said!r:.80}, and must be {' or '.join(allowed)}")
        return allowed[0]

    return understand


def _type(name: str, said: str) -> Meaning:
    if said.lower() not in {"float32", *_ORDERED_TYPES}:
        raise conflict(f"{name:.80} is {said!r:.80}, and must be little-endian float32")
    return "float32"


def _model(name: str, said: str) -> Meaning:
    found = _MODEL.fullmatch(said)
    if found is None:
        raise conflict(f"{name:.80} is {said!r:.80}, and must be {_MODEL_NAME}")
    return _MODEL_NAME + (found["revision"] or "")


def _order(name: str, said: str) -> Meaning:
    if said.lower() not in _LITTLE:
        raise conflict(f"{name:.80} is {said!r:.80}, and must be little")
    return "little"


def _whole(name: str, said: str) -> Meaning:
    if not (said.isascii() and said.isdecimal() and len(said) < 20):  # noqa: PLR2004 - digits of 64 bits
        raise conflict(f"{name:.80} is {said!r:.80}, and must be a whole number")
    return int(said)


def _dimensions(name: str, said: str) -> Meaning:
    if _whole(name, said) != DIMENSIONS:
        raise conflict(f"{name:.80} is {said:.80}, and must be {DIMENSIONS}")
    return DIMENSIONS


def _sha256(name: str, said: str) -> Meaning:
    if not _SHA256.fullmatch(said.lower()):
        raise conflict(f"{name:.80} is no SHA-256 in hexadecimal digits")
    return said.lower()


_READ: Mapping[str, Callable[[str, str], Meaning]] = {
    "contract": _one_of(BGE),
    "model": _model,
    "dimensions": _dimensions,
    "type": _type,
    "order": _order,
    "normalized": _one_of("true", "1", "yes", "l2"),
    "metric": _one_of("dot", "cosine", "inner_product", "ip"),  # the same for unit vectors
    "count": _whole,
    "chars": _whole,
    "sha256": _sha256,
}
