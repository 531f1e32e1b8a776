"""A store's list as its own program orders it (formats/codebase-index.md §4).

Three lists are made (`symbols`, `texts`, `paths`) of what a query asks for (`query`), fused (`fusing`),
weighed again by what names and paths say (`reranking`), and put in order (`own`). What that needs of a
store each time is kept while it is open: all names (`roster`), and where the chunks are (`layout`).
"""

from __future__ import annotations

from .own import own_of

__all__ = ["own_of"]
