"""Which stores a caller may see: what others there are is as if they were not. Pure."""

import difflib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from collated.errors import CollatedError
from collated.protocol import StoreStatus
from collated_readers import RequestError, State

from .model import Asked

__all__ = ["Scope"]

_NARROWED = frozenset({"search", "grep", "read", "neighbours", "symbols", "references", "impact", "stores"})
"""Methods that take `stores`; all others are asked of one `store`."""

_LISTED = "stores lists those that there are"


class Scope(Struct, frozen=True):
    """The names of the stores that a caller may see; None means all."""

    stores: frozenset[str] | None = None

    def visible(self, stores: Sequence[StoreStatus]) -> list[StoreStatus]:
        """Return those of *stores* that the caller may see, in their order."""
        return [store for store in stores if self.stores is None or store.name in self.stores]

    def narrowed(self, asked: Asked, stores: Sequence[StoreStatus]) -> Asked:
        """Return *asked* of none but the stores that the caller may see; *stores* are all there are.

        Raises:
            RequestError: `unknown_store` for any other, whether it exists or not; `invalid_params` where
                one has to be named.
        """
        if self.stores is None:
            return asked
        visible = self.visible(stores)
        names = [store.name for store in visible]
        for name in _named(asked.params):
            if name not in names:
                raise _unknown(name, names)
        if asked.method in _NARROWED:
            return Asked(asked.method, {**asked.params, "stores": _some_of(asked, visible)})
        return Asked(asked.method, {**asked.params, "store": _one_of(asked, visible)})

    def told(self, error: CollatedError | RequestError) -> CollatedError | RequestError:
        """Return *error* without the names of other stores that the daemon suggests where one vanished."""
        if self.stores is None or error.code != "unknown_store":
            return error
        return RequestError(error.code, str(error), _LISTED)


def _named(params: dict[str, Any]) -> list[str]:
    """Return the stores that *params* name. What stands before the colon of a ref is one."""
    ref = params.get("ref") or ""
    head, colon, _ = ref.partition(":")
    one = [params["store"]] if params.get("store") is not None else []
    return [*one, *(params.get("stores") or ()), *([head] if colon else [])]


def _some_of(asked: Asked, visible: Sequence[StoreStatus]) -> list[str]:
    """Return the stores that are named, or all; never none, which would be all that there are.

    One that was refused is asked only where it is named, so it is not.
    """
    if named := asked.params.get("stores"):
        return list(named)
    if not visible:
        raise _unknown(None, [])
    names = [store.name for store in visible]
    able = [store.name for store in visible if store.state != State.REFUSED]
    return names if asked.method == "stores" else able or names


def _one_of(asked: Asked, visible: Sequence[StoreStatus]) -> str:
    if asked.params.get("store") is not None:
        return str(asked.params["store"])
    able = [each.name for each in visible if each.state == State.OPEN and asked.method in each.capabilities]
    if len(able) == 1:
        return able[0]
    if not able:
        raise _unknown(None, [])
    raise RequestError("invalid_params", f"{asked.method} needs `store`", f"one of {', '.join(able)}")


def _unknown(name: str | None, names: Sequence[str]) -> RequestError:
    if name is None:
        return RequestError("unknown_store", "there is no store to ask", _LISTED)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    suggestion = f"did you mean {', '.join(close)}?" if close else _LISTED
    return RequestError("unknown_store", f"there is no store {name[:60]!r}", suggestion)
