"""Opening a SQLite store without touching it (DESIGN §3): the one door of every SQLite reader.

After any number of opens, queries and closes a store's bytes, mtimes and directory listing are what
they were, and no file of a store is ever mapped into this process.
"""

from .connection import StoreConnection, ask, open_store, tables
from .copies import sweep_copies
from .failure import StoreMoved, translate
from .signature import Signature, take_signature

__all__ = [
    "Signature",
    "StoreConnection",
    "StoreMoved",
    "ask",
    "open_store",
    "sweep_copies",
    "tables",
    "take_signature",
    "translate",
]
