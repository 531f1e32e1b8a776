"""The manifest of `book-agent-explicit-v1`, JSON beside the store (formats/book-agent.md §3)."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from collated_readers.contract import StoreError
from collated_readers.opening.descriptors import DESCRIPTORS
from collated_readers.vectors import Metric

from .layout import BGE, EXPLICIT, Columns, Encoding, Layout, Warned

__all__ = ["explicit_layout", "fields_of", "is_ours", "manifest_beside", "read_manifest", "unknown_schema"]

_LARGEST_BYTES = 1024 * 1024
_LONGEST_NAME = 1_000  # characters; a model's is shown wherever its store is
_ENCODINGS: Mapping[str, Encoding] = {
    "json": "json",
    **{
        spelling.format(size): f"{sign}f{size // 8}"
        for size in (32, 64)
        for sign, spellings in (
            ("<", ("float{}-le", "little-endian float{}")),
            (">", ("float{}-be", "big-endian float{}")),
        )
        for spelling in spellings
    },
}
_METRICS: Mapping[str, Metric] = {"dot": "dot", "cosine": "cosine", "l2": "l2", "euclidean": "l2"}
_NORMALIZATIONS = {"l2": True, "none": False}

_FIELDS = ("version", "model", "dimensions", "embedding_format", "normalization", "metric", "sqlite_schema")
_COLUMNS = ("table", "id", "text", "vector")
_SOURCES = ("source_json", "source_columns")
_MARKS = (b'"sqlite_schema"', b"book-agent", BGE.encode())


def manifest_beside(path: Path) -> bytes | None:
    """Return the manifest that lies beside the store at *path*, None without one.

    `NAME.manifest.json` is looked for under the store's name, and then under its name without suffix.
    A file there that says nothing of this format is somebody else's.
    """
    for name in dict.fromkeys((path.name, path.stem)):
        try:
            data = read_manifest(path.with_name(f"{name}.manifest.json"))
        except (OSError, StoreError):
            continue
        if is_ours(data):
            return data
    return None


def read_manifest(path: Path) -> bytes:
    """Return what the file at *path* holds; never blocks on a FIFO.

    Raises:
        StoreError: `invalid_manifest`: no file, or a huge one.
        OSError: what the system said.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST_BYTES:
            raise _invalid("it is no file, or one of more than 1 MiB")
        return os.pread(descriptor, _LARGEST_BYTES, 0)
    finally:
        DESCRIPTORS.dispose(descriptor)  # a link there may lead to a store that is being read


def is_ours(data: bytes) -> bool:
    """Tell whether a manifest says anything of this format, right or wrong."""
    return any(mark in data for mark in _MARKS)


def fields_of(data: bytes) -> dict[str, Any]:
    """Return the fields of a manifest.

    Raises:
        StoreError: `invalid_manifest`.
    """
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(f"it is no JSON object: {error}") from error


def explicit_layout(fields: Mapping[str, Any], digest: str, tables: Collection[str]) -> Layout:
    """Return the layout that a manifest's *fields* declare. Pure.

    Raises:
        StoreError: `unknown_sqlite_schema` (naming *tables*), `invalid_manifest`,
            `unsupported_embedding_format`, `unsupported_metric`, `unsupported_normalization`.
    """
    version = fields.get("version")
    if version != EXPLICIT:
        raise unknown_schema(f"the manifest has version {version!r:.80}", tables)
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise _invalid(f"it lacks {', '.join(missing)}")
    encoding = _one_of(fields, "embedding_format", _ENCODINGS, "unsupported_embedding_format")
    metric = _one_of(fields, "metric", _METRICS, "unsupported_metric")
    is_normalized = _one_of(fields, "normalization", _NORMALIZATIONS, "unsupported_normalization")
    unknown = sorted(fields.keys() - set(_FIELDS))
    return Layout(
        contract=EXPLICIT,
        model=_name(fields, "model"),
        dimensions=_dimensions(fields["dimensions"]),
        encoding=encoding,
        metric=metric,
        columns=_columns(fields["sqlite_schema"]),
        digest=digest,
        is_normalized=is_normalized,
        warned=(Warned("unknown_manifest_fields", _listed(unknown)),) if unknown else (),
    )


def unknown_schema(what: str, tables: Iterable[str]) -> StoreError:
    """Return the failure of a store whose layout is not known here."""
    return StoreError(
        "unknown_sqlite_schema",
        f"{what}; tables: {_listed(sorted(tables)) or 'none'}. An adapter of its own is required, "
        f"or a manifest of version {EXPLICIT}",
    )


def _one_of(fields: Mapping[str, Any], name: str, known: Mapping[str, Any], code: str) -> Any:
    value = _name(fields, name)
    if value not in known:
        raise StoreError(code, f"the manifest's {name} is {value!r:.80}; supported: {', '.join(known)}")
    return known[value]


def _dimensions(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _invalid(f"dimensions must be a whole number from 1, and is {value!r:.80}")
    return value


def _columns(declared: object) -> Columns:
    schema = _object("sqlite_schema", declared)
    unknown = sorted(schema.keys() - {*_COLUMNS, *_SOURCES})
    if unknown:
        raise _invalid(f"sqlite_schema has unknown fields: {_listed(unknown)}")
    source_columns = _object("source_columns", schema.get("source_columns") or {})
    table, record_id, text, vector = (_name(schema, name) for name in _COLUMNS)
    return Columns(
        table=table,
        id=record_id,
        text=text,
        vector=vector,
        source_json=None if schema.get("source_json") is None else _name(schema, "source_json"),
        source_columns=tuple((name, _name(source_columns, name)) for name in source_columns),
    )


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(f"{name} must be an object")
    return value  # pyright: ignore[reportUnknownVariableType]  # out of JSON, so its keys are strings


def _name(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME or "\0" in value:
        raise _invalid(f"{name:.80} must be a name, and is {value!r:.80}")
    return value


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"{name:.80}" for name in names)[:1000]


def _invalid(what: str) -> StoreError:
    return StoreError("invalid_manifest", f"the manifest is wrong: {what}")
