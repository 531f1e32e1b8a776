"""Book-agent stores: passages of books and their vectors, in one SQLite file that is a finished snapshot.

History of the format: two contracts. `bge-m3-lossless-v1` is known by its tables, `metadata` and
`chunks`; `book-agent-explicit-v1` by the manifest beside the store, which names tables and columns.
`PrebuiltVectorStoreAdapter` is the format's own interface to one store, `BookAgent` the reader.
"""

from .adapter import PrebuiltVectorStoreAdapter
from .reader import BookAgent

__all__ = ["BookAgent", "PrebuiltVectorStoreAdapter"]
