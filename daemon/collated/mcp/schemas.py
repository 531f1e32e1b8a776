"""JSON Schemas of the tools' arguments and answers, each whole in itself with an object at the root. Pure."""

from typing import Any

import msgspec
from msgspec import Struct

from collated.protocol import Reason

from .shapes import is_list, is_object

__all__ = [
    "Listed",
    "Listing",
    "answer",
    "arguments",
    "choice",
    "flag",
    "integer",
    "mapping",
    "text",
    "texts",
]

Schema = dict[str, Any]

_ADDED: Schema = {
    "freshness": {"type": "object", "additionalProperties": {"type": "string"}},
    "cut": {"type": "array", "items": {"type": "object"}},
    "next": {"type": "string"},
}
"""What every answer may have beside the wire's own fields."""


class Listed(Struct):
    """A store as `stores` lists it; `capabilities` are the tools that it answers."""

    name: str
    format: str | None
    state: str
    freshness: str | None
    documents: int | None
    records: int | None
    capabilities: list[str]
    reason: Reason | None


class Listing(Struct):
    """The stores, by name."""

    stores: list[Listed]


def arguments(properties: Schema, *required: str) -> Schema:
    """Return the schema of arguments of which no other is allowed."""
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False}


def text(about: str = "", **more: Any) -> Schema:
    """Return the schema of a string."""
    return _described({"type": "string", **more}, about)


def texts(about: str = "") -> Schema:
    """Return the schema of a list of strings."""
    return _described({"type": "array", "items": {"type": "string"}}, about)


def integer(least: int, most: int, default: int | None = None, about: str = "") -> Schema:
    """Return the schema of an integer from *least* to *most*; without a *default* it is to be given."""
    schema: Schema = {"type": "integer", "minimum": least, "maximum": most}
    return _described(schema if default is None else {**schema, "default": default}, about)


def flag(about: str = "") -> Schema:
    """Return the schema of a boolean, false where it is not given."""
    return _described({"type": "boolean", "default": False}, about)


def choice(*values: str, about: str = "") -> Schema:
    """Return the schema of one of some words, the first where it is not given."""
    return _described({"type": "string", "enum": list(values), "default": values[0]}, about)


def mapping(about: str) -> Schema:
    """Return the schema of an object."""
    return _described({"type": "object"}, about)


def answer(result: Any) -> Schema:
    """Return the schema of an answer that is *result*, a type of the wire, and what every answer may have."""
    _, definitions = msgspec.json.schema_components([result], ref_template="#/$defs/{name}")
    schemas = {name: _bare(schema) for name, schema in definitions.items()}
    root = schemas.pop(getattr(result, "__name__", ""), {"type": "object"})
    root = {**root, "properties": {**root.get("properties", {}), **_ADDED}}
    return {**root, "$defs": dict(sorted(schemas.items()))} if schemas else root


def _described(schema: Schema, about: str) -> Schema:
    return {**schema, "description": about} if about else schema


def _bare(schema: Any) -> Any:
    """Return *schema* without titles and descriptions, which say how the wire is, not what a model may do."""
    if is_object(schema):
        return {
            key: _bare(value)
            for key, value in schema.items()
            if not (key in ("title", "description") and isinstance(value, str))
        }
    return [_bare(each) for each in schema] if is_list(schema) else schema
