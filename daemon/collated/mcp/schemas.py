"""JSON Schemas of the tools' arguments and answers, each whole in itself with an object at the root. Pure."""

from typing import Any

import msgspec
from msgspec import Struct

from collated.protocol import Reason

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
    "freshness": {"type": "object"},
    "cut": {"type": "array"},
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
    """Return the schema of an answer that is *result*, a type of the wire, and what every answer may have.

    It says what there is and of which kind, not what is within: clients check each answer against it, and
    did so for as long as it takes to search fifty stores. `collate schema` prints the whole.
    """
    _, definitions = msgspec.json.schema_components([result], ref_template="{name}")
    root = definitions.get(getattr(result, "__name__", ""), {"type": "object"})
    fields = {name: _kind(schema) for name, schema in root.get("properties", {}).items()}
    required = {"required": root["required"]} if root.get("required") else {}
    return {"type": "object", "properties": {**fields, **_ADDED}, **required}


def _kind(schema: Schema) -> Schema:
    """Return a field's schema without what it holds: a word or a list of words, which is soon checked."""
    if "anyOf" in schema:
        return {"type": [_kind(each)["type"] for each in schema["anyOf"]]}
    if "enum" in schema:
        return {"type": "string"}
    return {"type": schema.get("type", "object")}  # what is defined elsewhere is an object


def _described(schema: Schema, about: str) -> Schema:
    return {**schema, "description": about} if about else schema
