"""What the parts of the bridge hand each other."""

from typing import Any

from msgspec import Struct

__all__ = ["Answer", "Asked", "Tool"]


class Tool(Struct, frozen=True):
    """A tool as an agent sees it.

    It is announced when an open store has one of the capabilities in *needs*, always where that is empty.
    The schemas are JSON Schema, 2020-12, with an object at the root.
    """

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    needs: frozenset[str] = frozenset()


class Asked(Struct, frozen=True):
    """A tool's call in the daemon's words: a method of `protocol.METHODS` and its parameters."""

    method: str
    params: dict[str, Any]


class Answer(Struct, frozen=True):
    """What an agent is answered: *structured* by the tool's output schema, and *text* for a model to read.

    Where it *is_error*, *structured* is `{"error", "code", "suggestion"}`.
    """

    structured: dict[str, Any]
    text: str
    is_error: bool = False
