"""codebase-index stores: a program's files cut into chunks, its symbols and their ties, with an FTS5 index.

History of the format (formats/codebase-index.md §2): 1 is the base; 2 has `chunks.symbol_names`;
3 has `edges.confidence` and a report on the graph in `meta`; 4 has `edges.dst_qualifier`. What a store
has is looked up in its tables: versions between releases differ more than their numbers say.
"""

from .reader import CodebaseIndex

__all__ = ["CodebaseIndex"]
