"""The addresses of resources: `collate://index`, and `collate://STORE/ID` for each record."""

from urllib.parse import unquote

__all__ = ["INDEX", "RECORD", "ref_of"]

INDEX = "collate://index"
RECORD = "collate://{store}/{+id}"

_SCHEME = "collate://"


def ref_of(address: str) -> str | None:
    """Return the ref STORE:ID that a record's *address* means, None where it is no such address."""
    store, slash, record = address.removeprefix(_SCHEME).partition("/")
    if not address.startswith(_SCHEME) or not (store and slash and record):
        return None
    return f"{unquote(store)}:{unquote(record)}"
