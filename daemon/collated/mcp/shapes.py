"""Values of JSON, told apart by their type. Pure."""

from typing import Any, TypeGuard

__all__ = ["is_list", "is_object"]


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Tell whether *value* is an object, whose keys JSON makes strings."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Tell whether *value* is a list."""
    return isinstance(value, list)
