"""JSON of a store as typed values, whatever it is made of."""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar

import msgspec

__all__ = ["decoded", "is_list", "is_object"]

_T = TypeVar("_T")


def decoded(data: bytes, kind: type[_T]) -> _T:
    """Return the JSON in *data* as a *kind*.

    Raises:
        ValueError: it is no JSON, of another shape, or nested too deeply.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no JSON of the expected shape: {error!s:.200}") from error


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether *value* is an object, out of JSON or TOML, whose keys are strings."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell whether *value* is a list, out of JSON or TOML."""
    return isinstance(value, list)
