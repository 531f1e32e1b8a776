"""The table of contents: one line for each document."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["contents_of"]

_PATH_CHARACTERS = 30


def contents_of(documents: Mapping[str, int], prefix: str | None) -> str:
    """Return *documents*, with how many passages each has, whose path starts with *prefix*, by path."""
    chosen = sorted(each for each in documents.items() if each[0].startswith(prefix or ""))
    passages = sum(count for _, count in chosen)
    about = f" · {prefix}" if prefix else ""
    head = f"book-agent index{about} · {len(chosen)} documents · {passages} passages"
    return "\n".join([head, *(f"{path:<{_PATH_CHARACTERS}}  ({count})" for path, count in chosen)])
