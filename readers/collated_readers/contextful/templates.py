"""The `[[query_templates]]` of a store's declaration (guard.md §4). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from collated_readers.codes import RequestError

from .model import Template
from .parsing import is_object
from .refusals import refused

__all__ = ["PARAMETER_TYPES", "templates_of"]

PARAMETER_TYPES = ("integer", "float", "string", "timestamp", "boolean")
"""What a parameter may be, of a template and of `context.query`."""

_RESERVED = frozenset({"as_of", "valid_as_of", "available_as_of", "zone", "pin"})
_TOOLS = ("context.", "corpus.", "memory.")
_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,127}):([a-z]+)", re.ASCII)
_LONGEST_ID = 200


class _Template(Struct, forbid_unknown_fields=True):
    id: str
    sql: str
    parameters: tuple[str, ...] = ()
    max_rows: Annotated[int, Meta(ge=0)] | None = None


def templates_of(entries: Sequence[Any]) -> tuple[tuple[Template, ...], dict[str, RequestError]]:
    """Return the templates that are sound, in order, and why each other one may not be run, by its id.

    What their SQL names is for the guard to judge. An entry without an id is nothing that anyone could ask.
    """
    sound = dict[str, Template]()
    withheld = dict[str, RequestError]()
    for entry in entries:
        named = entry.get("id") if is_object(entry) else None
        if not isinstance(named, str) or not 0 < len(named) <= _LONGEST_ID:
            continue
        template = _template(named, entry)
        if named in sound or named in withheld:
            template = refused("TemplateArgumentRejected", f"template '{named}' is declared twice")
            sound.pop(named, None)
        if isinstance(template, Template):
            sound[named] = template
        else:
            withheld[named] = template
    return tuple(sound.values()), withheld


def _template(named: str, entry: Any) -> Template | RequestError:
    if named.startswith(_TOOLS):
        return refused("TemplateNamesForeignRelation", f"template '{named}' is named like a tool")
    try:
        found = msgspec.convert(entry, _Template)
        parameters = tuple(_parameter(text) for text in found.parameters)
        if len({name for name, _ in parameters}) < len(parameters):
            raise ValueError("it has a parameter twice")  # noqa: TRY301 - one place that says it is refused
    except (ValueError, RecursionError) as error:
        what = f"the declaration of template '{named}' is not understood: {error!s:.200}"
        return refused("TemplateArgumentRejected", what)
    return Template(found.id, found.sql, parameters, found.max_rows)


def _parameter(text: str) -> tuple[str, str]:
    match = _PARAMETER.fullmatch(text)
    if match is None or match[2] not in PARAMETER_TYPES:
        raise ValueError(f"{text!r:.80} is no parameter such as name:string")
    if match[1] in _RESERVED:
        raise ValueError(f"a parameter cannot be named {match[1]}, which bounds the read")
    return match[1], match[2]
