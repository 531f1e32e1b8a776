"""A store's list as its own program orders it (formats/codebase-index.md §4).

Three lists are made (`symbols`, `texts`, `paths`) of what a query asks for (`query`), fused (`fusing`),
weighed again by what names and paths say (`reranking`), and put in order (`own`).
"""

from __future__ import annotations

from .own import own_of

__all__ = ["own_of"]
