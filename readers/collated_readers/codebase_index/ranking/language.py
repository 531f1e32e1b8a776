"""Words that the program knows: those without a meaning, and those of the same."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["STOPWORDS", "SYNONYMS", "listed"]


def listed(words: str) -> frozenset[str]:
    """Return the words of a table written as text."""
    return frozenset(words.split())


STOPWORDS = listed("""
    how what where which who whom when why
    a an the this that these those it its their
    is are was were be been being do does did if and or
    about across between during for from in into of on to via with
    work works working function functions method methods class classes interface interfaces
    enum enums type types
""")

_BOTH_WAYS = (
    ("auth", "authentication"),
    ("config", "configuration"),
    ("delete", "remove"),
    ("repo", "repository"),
    ("retry", "retries"),
    ("caller", "callers"),
    ("test", "tests"),
)
_ONE_WAY: Mapping[str, tuple[str, ...]] = {
    "create": ("add", "insert"),
    "add": ("create", "insert"),
    "insert": ("create", "add"),
    "chosen": ("choose",),
    "files": ("file",),
    "loaded": ("load",),
    "merged": ("merge", "merg"),
    "merging": ("merge", "merg"),
    "parsing": ("parse",),
    "produced": ("produce",),
    "raises": ("raise",),
    "ranking": ("rank",),
    "redacted": ("redact",),
    "redaction": ("redact",),
    "secrets": ("secret",),
}

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    **{one: (other,) for one, other in _BOTH_WAYS},
    **{other: (one,) for one, other in _BOTH_WAYS},
    **_ONE_WAY,
}
"""By each word those that are looked for beside it, in order."""
