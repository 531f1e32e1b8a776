"""Text of stores for a model, in which nothing is left that a terminal would obey. Pure."""

import re

__all__ = ["escaped", "plain"]

# Control characters, what reorders or breaks lines without being seen, and halves of surrogate pairs.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(line: str) -> str:
    """Return *line* without what could move, hide or reorder things; a tab is a space."""
    return _HIDDEN.sub("", line.replace("\t", " "))


def escaped(document: str) -> str:
    """Return the JSON *document* with all of that as escapes in its strings, which mean the same."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
