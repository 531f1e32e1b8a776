"""ContextPull stores: documents cut into sections, in one SQLite file with an FTS5 index.

History of the format: 1.0 is the only one so far (store-format.md). Any 1.x is read, no other major.
"""

from .reader import ContextPull

__all__ = ["ContextPull"]
